"""Placeholders stand for allowed values in allowed fields; all others are refused. Secrets are bound to hosts, read from
allowed files only, and stored as placeholders only."""

import os
import re
from pathlib import Path

import pytest

from registry.placeholders import resolving
from registry.placeholders.resolving import (
    MAX_FILE_BYTES,
    MAX_PLACEHOLDERS,
    OWN_VARIABLES,
    Placeholders,
    UnresolvedPlaceholderError,
)
from registry.placeholders.secret_fields import secret_faults
from registry.placeholders.secret_hosts import SecretHosts
from schemas.configuration import has_placeholder, read_schema
from schemas.connections import Fault
from schemas.errors import ConfigurationError, InvalidInputError

ENVIRON = {
    "OPENAI_API_KEY": "sk-planted",
    "RAG_THEIR_URL": "http://127.0.0.1:1",
    "RAG_BATCH": "7",
    "RAG_EMPTY": "",
    "RAG_CATALOG_URL": "postgresql+psycopg://db/planted",
    "SOME_DATABASE_URL": "postgresql://me:planted@db/",
    "QUOTED_URL": '"http://host"',
    "TOKEN_URL": "http://host/?token=planted",
    "CHROMA_HOST": "chroma.internal",
    "PATH": "/planted",
    "openai_api_key": "planted",
}
SECRETS = {"properties": {key: {"writeOnly": True} for key in ("a", "k", "key", "fine", "a/b")}}
ADDRESS = {"properties": {"url": {"type": "string", "format": "uri"}}}


@pytest.fixture
def secret_dir(tmp_path):
    directory = tmp_path / "secrets"
    directory.mkdir()
    (directory / "key").write_text("sk-from-file\n")
    return directory


@pytest.fixture
def placeholders(secret_dir):
    return Placeholders(ENVIRON, secret_dirs=[secret_dir])


SETTINGS = Path(__file__).parents[3] / "docs" / "settings.md"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("plain", "plain"),
        ("${OPENAI_API_KEY}", "sk-planted"),
        ("${OPENAI_API_KEY}/v${RAG_BATCH}", "sk-planted/v7"),
        ("${RAG_EMPTY}", ""),
        ("$$", "$$"),
        ("$${OPENAI_API_KEY}", "${OPENAI_API_KEY}"),
        ("$$${RAG_BATCH}", "$7"),
        ("$5 and $PATH", "$5 and $PATH"),
    ],
)
def test_a_secret_is_resolved_by_its_placeholders(placeholders, written, meant):
    assert placeholders.resolve({"a": written}, SECRETS).config == {"a": meant}
    assert placeholders.resolve({"a": {"b": [1, {"c": written}]}}, SECRETS).config == {"a": {"b": [1, {"c": meant}]}}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("http://plain", "http://plain"),
        ("${RAG_THEIR_URL}", "http://127.0.0.1:1"),
        ("${RAG_THEIR_URL}/v1", "http://127.0.0.1:1/v1"),
        ("${CHROMA_HOST}", None),
        ("http://${CHROMA_HOST}/v1", "http://chroma.internal/v1"),
        ("https://${CHROMA_HOST}:8000", "https://chroma.internal:8000"),
        ("http://${CHROMA_HOST}:${RAG_BATCH}", "http://chroma.internal:7"),
        ("http://host:${RAG_BATCH}/v1", "http://host:7/v1"),
        ("http://${RAG_MISSING:-there}/v1", "http://there/v1"),
        ("http://${RAG_EMPTY:-there}", "http://there"),
        ("${RAG_MISSING:-https://there/v1}/x", "https://there/v1/x"),
        ("http://host/a$$b", "http://host/a$b"),
        ("http://${RAG_THEIR_URL}", None),
        ("http://${OPENAI_API_KEY}.evil.example/", None),
        ("http://evil.example/${OPENAI_API_KEY}", None),
        ("http://evil.example/${RAG_THEIR_URL}", None),
        ("http://evil.example:${OPENAI_API_KEY}", None),
        ("http://evil.example?${OPENAI_API_KEY}", None),
        ("http://${OPENAI_API_KEY}@evil.example", None),
        ("${RAG_THEIR_URL}.evil.example", None),
        ("${RAG_THEIR_URL}@evil.example", None),
        ("${RAG_THEIR_URL}${OPENAI_API_KEY}", None),
        ("${SOME_DATABASE_URL}", None),
        ("${QUOTED_URL}", None),
        ("${TOKEN_URL}", None),
        ("http://${OPENAI_API_KEY:-x", None),
    ],
)
def test_a_placeholder_in_a_url_stands_for_the_address_its_host_or_its_port(placeholders, written, meant):
    faults = placeholders.faults({"url": written}, ADDRESS)
    assert [fault.pointer for fault in faults] == ([] if meant else ["/url"])
    assert "planted" not in str(faults)
    if meant:
        assert placeholders.resolve({"url": written}, ADDRESS).config == {"url": meant}


@pytest.mark.parametrize(
    "address",
    [
        *("http://host/v1", "'http://me:planted@host'", '"https://host/?api_key=planted"', "s3://bucket/planted"),
        *("https://hooks.example/services/T0000/B0000/planted", "amqp+ssl://me:planted@host"),
        # Databases: by a URL, by JDBC, and by the strings of their own drivers.
        *("postgresql://me:planted@db/x", "jdbc:oracle:thin:planted/planted@//host:1521/x"),
        *("jdbc:postgresql://host/x?password=planted", "me:planted@tcp(127.0.0.1:3306)/x", "me@tcp(127.0.0.1:3306)/x"),
        *("me:planted@/x", "host=db user=me password=planted", "Server=db;User Id=me;Password=planted"),
        "scott/planted@host",
    ],
)
def test_an_address_is_never_sent_as_a_secret(address):
    """A variable that is named like a key may hold the address of a database, with its password."""
    placeholders = Placeholders({"PLANTED_API_KEY": address})
    [fault] = placeholders.faults({"key": "${PLANTED_API_KEY}"}, SECRETS)
    assert (fault.pointer, "planted" in fault.message) == ("/key", False)


@pytest.mark.parametrize(
    "key",
    ["sk-proj-Ab_9/x+y==", "p@ssw0rd", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "a.b-c~d", "eyJh.eyJz.Sfl-K_x"],
)
def test_a_key_is_sent_as_a_secret(key):
    placeholders = Placeholders({"PLANTED_API_KEY": key})
    assert placeholders.resolve({"key": "${PLANTED_API_KEY}"}, SECRETS).config == {"key": key}


@pytest.mark.parametrize("field", ["model", "tenant", "path", "does_not_exist"])
def test_no_other_field_takes_a_placeholder(placeholders, field):
    schema = {"properties": {"model": {"type": "string"}, "tenant": {}, "path": {"type": ["string", "integer"]}}}
    [fault] = placeholders.faults({field: "x${OPENAI_API_KEY}"}, schema)
    assert fault == Fault(f"/{field}", "Placeholders may stand in secrets and in the URL only")
    assert placeholders.resolve({field: "$$ and $${OPENAI_API_KEY}"}, schema).config == {
        field: "$ and ${OPENAI_API_KEY}"
    }


def test_a_secret_may_not_have_a_default_and_the_redactor_knows_the_inserted_values_and_what_was_typed_last(
    placeholders,
):
    for written in ("${OPENAI_API_KEY:-sk-planted}", "${OPENAI_API_KEY:-}", "${RAG_MISSING:-x}"):
        [fault] = placeholders.faults({"key": written}, SECRETS)
        assert fault == Fault("/key", "A secret has no default: it would be stored in clear")
    found = placeholders.resolve({"key": "${OPENAI_API_KEY}", "fine": "sk-literal", "plain": "other"}, SECRETS)
    assert found.redactor("sk-planted sk-literal other") == "*** *** other"
    assert placeholders.said("sk-planted") == "***"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolving, "MAX_TYPED", 5)
        for n in range(20):
            schema = {"properties": SECRETS["properties"] | ADDRESS["properties"]}
            form = {"url": f"http://${{RAG_NO_HOST:-host-{n}}}", "key": f"typed-{n}-${{OPENAI_API_KEY}}"}
            placeholders.resolve(form, schema)
    assert placeholders.said.values == {"sk-planted", *(f"typed-{n}-sk-planted" for n in range(15, 20))}
    assert placeholders.said("host-1 typed-19-sk-planted typed-1-sk-planted") == "host-1 *** typed-1-***"
    placeholders = Placeholders({"RAG_A": "${RAG_B} $$", "RAG_B": "planted"})
    assert placeholders.resolve({"a": "${RAG_A}"}, SECRETS).config == {"a": "${RAG_B} $$"}


def test_the_services_own_variables_are_given_to_no_connection():
    """Those are all that the page of settings names, and what the service sets for its own processes."""
    documented = set(re.findall("`(RAG_[A-Z_]+)`", SETTINGS.read_text()))
    assert len(documented) > 100
    for name in documented | OWN_VARIABLES | {"RAG_CONFIG_FILE", "RAG_HOSTED_BY"}:
        placeholders = Placeholders({name: "planted"}, ["*"])
        assert (placeholders.available(), placeholders.is_allowed(name)) == ([], False), name
        [fault] = placeholders.faults({"key": f"${{{name}}}"}, SECRETS)
        assert fault.message.startswith(f"The variable {name} is not among")


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("${RAG_MISSING}", "The variable RAG_MISSING is not set"),
        ("${PATH}", "The variable PATH is not among those allowed here"),
        ("${openai_api_key}", "The variable openai_api_key is not among"),
        ("${RAG_CATALOG_URL}", "The variable RAG_CATALOG_URL is not among"),
        ("${SOME_DATABASE_URL}", "The variable SOME_DATABASE_URL holds a URL with credentials"),
        ("${}", "A placeholder is"),
        ("${OPENAI_API_KEY", "A placeholder is"),
        ("${OPENAI_API_KEY:+x}", "A placeholder is"),
        ("${1X}", "A placeholder is"),
        ("${ OPENAI_API_KEY }", "A placeholder is"),
        ("${RAG_CHAT_API_KEY}", "The variable RAG_CHAT_API_KEY is not among"),
        ("${RAG_Ä}", "A placeholder is"),
    ],
)
def test_an_unresolvable_placeholder_is_named_with_its_place_and_without_a_value(placeholders, written, sentence):
    config = {"fine": "${OPENAI_API_KEY}", "a/b": [{"c~": written}]}
    [fault] = placeholders.faults(config, SECRETS)
    assert fault.pointer == "/a~1b/0/c~0"
    assert fault.message.startswith(sentence)
    with pytest.raises(UnresolvedPlaceholderError) as caught:
        placeholders.resolve(config, SECRETS)
    assert caught.value.details["errors"] == [{"pointer": fault.pointer, "message": fault.message}]
    assert "planted" not in str(caught.value) + str(caught.value.details)


def test_excessive_nesting_is_refused_and_not_followed_and_a_variable_that_is_not_text_named(placeholders):
    environ = {"RAW_API_KEY": os.fsdecode(b"sk-\xff-planted")}
    with pytest.raises(UnresolvedPlaceholderError, match="The variable RAW_API_KEY does not hold text in UTF-8"):
        Placeholders(environ).resolve({"a": "${RAW_API_KEY}"}, SECRETS)
    config: dict = {}
    for _ in range(900):
        config = {"a": config}
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        placeholders.resolve(config, SECRETS)


def test_the_operators_patterns_replace_ours_and_names_are_listed_once_in_order(placeholders):
    mine = Placeholders({**ENVIRON, "MINE_A": "x"}, patterns=["MINE_*"])
    assert mine.available() == ["MINE_A"]
    assert mine.faults({"a": "${MINE_A}${OPENAI_API_KEY}"}, SECRETS)[0].message.startswith(
        "The variable OPENAI_API_KEY"
    )
    assert Placeholders(ENVIRON, patterns=["*"]).faults({"a": "${RAG_CATALOG_URL}"}, SECRETS)
    assert placeholders.names({"a": "${B}${A:-x}$${C}", "b": ["${B}", "${file:/x}", "${"]}) == ["B", "A"]
    assert placeholders.names("text with ${OPENAI_API_KEY}") == ["OPENAI_API_KEY"]


@pytest.mark.parametrize(
    ("text", "holds"), [("${A}", True), ("$${A}", False), ("$$${A}", True), ("a$${B}c${D}", True), ("$A", False)]
)
def test_two_dollar_signs_are_not_a_placeholder(text, holds):
    assert has_placeholder(text) is holds


@pytest.mark.parametrize(
    "schema", [SECRETS, {"properties": {"a": ADDRESS["properties"]["url"]}}], ids=["secret", "url"]
)
def test_a_text_of_too_many_placeholders_is_refused_without_reading_them(placeholders, schema):
    (fault,) = placeholders.faults({"a": "${RAG_BATCH}" * (MAX_PLACEHOLDERS + 1)}, schema)
    assert fault == Fault("/a", "There are 101 placeholders, at most 100 are read")
    assert placeholders.resolve({"a": "${RAG_BATCH}" * MAX_PLACEHOLDERS}, SECRETS).config == {"a": "7" * 100}


BOUND = SecretHosts.parse(
    ["OPENAI_API_KEY=api.openai.com", "CORP_API_KEY=https://llm.corp:8443", "CORP_API_KEY=*.corp.example"]
)
BOUND_ENVIRON = {"OPENAI_API_KEY": "sk-planted", "CORP_API_KEY": "planted", "FREE_API_KEY": "free", "EVIL_HOST": "evil"}
KEYED = {"properties": {**ADDRESS["properties"], "api_key": {"writeOnly": True}}}


@pytest.mark.parametrize(
    ("variable", "url", "may_go"),
    [
        ("OPENAI_API_KEY", "https://api.openai.com/v1", True),
        ("OPENAI_API_KEY", "https://API.OpenAI.com:444/v1", True),
        ("OPENAI_API_KEY", "https://api.openai.com.evil.example/v1", False),
        ("OPENAI_API_KEY", "https://api.openai.com./v1", True),
        ("OPENAI_API_KEY", "http://${EVIL_HOST}/", False),
        ("CORP_API_KEY", "https://llm.corp:8443", True),
        ("CORP_API_KEY", "http://llm.corp:8443", False),
        ("CORP_API_KEY", "https://llm.corp", False),
        ("CORP_API_KEY", "http://a.corp.example:1", True),
        ("CORP_API_KEY", "http://corp.example", False),
        ("FREE_API_KEY", "http://evil", True),
        ("OPENAI_API_KEY", None, False),
    ],
)
def test_a_secret_bound_to_hosts_goes_to_no_other(variable, url, may_go):
    placeholders = Placeholders(BOUND_ENVIRON, secret_hosts=BOUND)
    config = {"api_key": f"${{{variable}}}"} | ({} if url is None else {"url": url})
    for judged in (placeholders.faults, placeholders.forbidden):
        faults = judged(config, KEYED, lambda resolved: resolved.get("url"))
        expected = [] if may_go else [Fault("/api_key", f"{variable} may not be sent to this host (RAG_SECRET_HOSTS)")]
        assert faults == expected


def test_a_file_is_bound_by_its_location(secret_dir):
    bound = SecretHosts.parse([f"file:{secret_dir}/key=good.example"])
    placeholders = Placeholders({}, secret_dirs=[secret_dir], secret_hosts=bound)
    for written in (f"{secret_dir}/key", f"{secret_dir}/../{secret_dir.name}/key"):
        config = {"api_key": f"${{file:{written}}}", "url": "http://evil.example"}
        assert [fault.pointer for fault in placeholders.faults(config, KEYED)] == ["/api_key"]
        assert not placeholders.faults({**config, "url": "http://good.example"}, KEYED)


@pytest.mark.parametrize(
    "rule",
    ["X", "X=", "=host", "X=http://", "X=host:port", "X=ftp://host", "X=a b", "1X=host", "X=host/path", "X=h:1:2"],
)
def test_an_invalid_rule_for_secrets_is_named(rule):
    with pytest.raises(ConfigurationError, match="RAG_SECRET_HOSTS"):
        SecretHosts.parse([rule])


def test_a_file_is_read_by_a_link_within_or_to_its_directory_without_its_last_newline(placeholders, secret_dir):
    (secret_dir / "windows").write_bytes(b"a\n\r\n")
    for name, content in (("key", "sk-from-file"), ("windows", "a\n")):
        assert placeholders.resolve({"k": f"${{file:{secret_dir}/{name}}}"}, SECRETS).config == {"k": content}
    (secret_dir / "..data").mkdir()
    (secret_dir / "..data" / "inner").write_text("x")
    (secret_dir / "link").symlink_to("..data/inner")
    assert placeholders.resolve({"k": f"${{file:{secret_dir}/link}}"}, SECRETS).config == {"k": "x"}
    (secret_dir.parent / "alias").symlink_to(secret_dir)
    placeholders = Placeholders({}, secret_dirs=[secret_dir.parent / "alias"])
    assert placeholders.resolve({"k": f"${{file:{secret_dir.parent}/alias/key}}"}, SECRETS).config == {
        "k": "sk-from-file"
    }
    assert Placeholders({}, secret_dirs=[]).faults({"k": f"${{file:{secret_dir}/key}}"}, SECRETS)
    assert Placeholders({}).faults({"k": f"${{file:{Path(__file__)}}}"}, SECRETS)


@pytest.mark.parametrize(
    "written",
    [
        *("/etc/hostname", "/etc/no-such-file", "/proc/self/environ", "key", "./key", "", "~/key", "{secrets}x"),
        *("{secrets}/../outside", "{secrets}/../secrets-too/key"),
        *("{secrets}/link-out", "{secrets}/link-to-root/etc/hostname"),
    ],
)
def test_no_file_outside_is_read_or_said_to_exist(placeholders, secret_dir, written, monkeypatch):
    monkeypatch.chdir(secret_dir)
    (secret_dir.parent / "outside").write_text("planted")
    (secret_dir.parent / "secrets-too").mkdir()
    (secret_dir.parent / "secrets-too" / "key").write_text("planted")
    (secret_dir / "link-out").symlink_to(secret_dir.parent / "outside")
    (secret_dir / "link-to-root").symlink_to("/")
    [fault] = placeholders.faults({"k": f"${{file:{written.format(secrets=secret_dir)}}}"}, SECRETS)
    assert "is not below a directory that is allowed here (RAG_SECRET_DIRS)" in fault.message
    assert str(secret_dir) not in fault.message


@pytest.mark.parametrize(
    "name", ["missing", "fifo", "directory", "large", "binary", "loop", "device", "nul\0", "x" * 300]
)
def test_only_a_small_readable_text_file_is_accepted(placeholders, secret_dir, name):
    os.mkfifo(secret_dir / "fifo")
    (secret_dir / "directory").mkdir()
    (secret_dir / "large").write_text("x" * (MAX_FILE_BYTES + 1))
    (secret_dir / "binary").write_bytes(b"\xff\xfe")
    (secret_dir / "loop").symlink_to("loop")
    (secret_dir / "device").symlink_to("/dev/zero")
    [fault] = placeholders.faults({"k": f"${{file:{secret_dir}/{name}}}"}, SECRETS)
    assert re.match("The file of a placeholder (cannot be read|is not below)", fault.message)
    assert str(secret_dir) not in fault.message


def test_a_file_of_the_services_own_is_read_by_no_placeholder(secret_dir):
    """Whichever way it is named: itself or by links. A file beside it is read."""
    own = secret_dir / "secret.key"
    own.write_text("planted")
    (secret_dir / "link").symlink_to(own)
    os.link(own, secret_dir / "hard")
    placeholders = Placeholders({}, secret_dirs=[secret_dir], own_files=[own, secret_dir / "not-there"])
    for name in ("secret.key", "link", "hard", "./secret.key", "../secrets/secret.key"):
        [fault] = placeholders.faults({"k": f"${{file:{secret_dir}/{name}}}"}, SECRETS)
        assert fault.message == "The file of a placeholder cannot be read"
    (secret_dir / "secret.key-of-another").write_text("fine")
    found = placeholders.resolve({"k": f"${{file:{secret_dir}/secret.key-of-another}}"}, SECRETS)
    assert found.config == {"k": "fine"}


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        *((value, False) for value in ("sk-literal", "Bearer ${OPENAI_API_KEY}", "${OPENAI_API_KEY}x", "${}", "$$")),
        *((value, False) for value in (7, ["x"], "")),
        *((value, True) for value in ("${OPENAI_API_KEY}", "${file:/run/secrets/key}", "${RAG_A}${RAG_B}", None)),
    ],
)
def test_a_secret_is_stored_as_placeholders_and_not_in_clear_also_within_another_field(value, is_kept):
    faults = secret_faults({"url": "http://host", "api_key": value}, read_schema("embedding-openai"))
    assert [fault.pointer for fault in faults] == ([] if is_kept else ["/api_key"])
    assert "literal" not in str(faults)
    schema = {"properties": {"auth": {"properties": {"token": {"writeOnly": True, "title": "Token"}}}}}
    assert [each.pointer for each in secret_faults({"auth": {"token": "x"}}, schema)] == ["/auth/token"]
    assert secret_faults({"auth": "x"}, schema) == []


@pytest.mark.parametrize(
    ("url", "is_kept"),
    [
        ("https://host/v1", True),
        ("https://host/openai/deployments/gpt-4o-mini-2024-07-18/v1", True),
        ("https://host/api/workspaces/3f2b8c1e-0000-4000-8000-1234567890ab/v1", True),
        ("https://host/${NO_PLACE}", True),
        ("https://host/bot123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11/x", False),
        ("https://host/services/T00000000/B00000000/a1B2c3D4e5F6g7H8i9J0k1L2", False),
    ],
)
def test_an_address_with_something_like_a_key_in_its_path_is_not_stored(url, is_kept):
    assert [fault.pointer for fault in secret_faults({"url": url}, ADDRESS)] == ([] if is_kept else ["/url"])
