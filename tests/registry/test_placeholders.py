import os
import re
from pathlib import Path

import pytest

from registry.placeholders import MAX_FILE_BYTES, Placeholders, UnresolvedPlaceholderError, secret_faults
from schemas.configuration import has_placeholder, read_schema
from schemas.connections import Fault
from schemas.errors import InvalidInputError

ENVIRON = {
    "OPENAI_API_KEY": "sk-planted",
    "RAG_THEIR_URL": "http://127.0.0.1:1",
    "RAG_BATCH": "7",
    "RAG_SECONDS": "2.5",
    "RAG_YES": "True",
    "RAG_EMPTY": "",
    "RAG_NAN": "nan",
    "RAG_HUGE": "9" * 5000,
    "RAG_CATALOG_URL": "postgresql+psycopg://db/planted",
    "SOME_DATABASE_URL": "postgresql://me:planted@db/",
    "PATH": "/planted",
    "openai_api_key": "planted",
}
TYPED = {
    "properties": {
        "count": {"type": "integer"},
        "seconds": {"type": "number"},
        "on": {"type": "boolean"},
        "either": {"type": ["string", "integer"]},
        "maybe": {"type": ["integer", "null"]},
        "nested": {"properties": {"count": {"type": "integer"}}},
        "list": {"type": "array", "items": {"type": "integer"}},
    }
}


@pytest.fixture
def secret_dir(tmp_path):
    directory = tmp_path / "secrets"
    directory.mkdir()
    (directory / "key").write_text("sk-from-file\n")
    return directory


@pytest.fixture
def placeholders(secret_dir):
    return Placeholders(ENVIRON, secret_dirs=[secret_dir])


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("plain", "plain"),
        ("${OPENAI_API_KEY}", "sk-planted"),
        ("${RAG_THEIR_URL}/v${RAG_BATCH}", "http://127.0.0.1:1/v7"),
        ("${RAG_MISSING:-there}", "there"),
        ("${RAG_MISSING:-}", ""),
        ("${RAG_EMPTY:-there}", "there"),
        ("${RAG_EMPTY}", ""),
        ("${RAG_BATCH:-there}", "7"),
        ("${RAG_MISSING:-a:-b $x\n}", "a:-b $x\n"),
        ("$$", "$"),
        ("$${OPENAI_API_KEY}", "${OPENAI_API_KEY}"),
        ("$$${RAG_BATCH}", "$7"),
        ("$5 and $PATH", "$5 and $PATH"),
    ],
)
def test_what_a_string_means(placeholders, written, meant):
    assert placeholders.resolve({"a": written}, {}) == {"a": meant}
    assert placeholders.resolve({"a": {"b": [1, {"c": written}]}}, {}) == {"a": {"b": [1, {"c": meant}]}}


def test_what_was_put_in_is_told_apart(placeholders):
    found = placeholders.resolved({"key": "${OPENAI_API_KEY}", "url": "http://$$/${RAG_BATCH}", "plain": "x"}, {})
    assert found.values == {"sk-planted", "7"}


def test_what_is_resolved_is_not_resolved_again():
    placeholders = Placeholders({"RAG_A": "${RAG_B} $$", "RAG_B": "planted"})
    assert placeholders.resolve({"a": "${RAG_A}"}, {}) == {"a": "${RAG_B} $$"}


@pytest.mark.parametrize(
    ("field", "written", "meant"),
    [
        ("count", "${RAG_BATCH}", 7),
        ("count", "${RAG_MISSING:--7}", -7),
        ("count", "${RAG_SECONDS}", "2.5"),
        ("count", "${RAG_HUGE}", ENVIRON["RAG_HUGE"]),
        ("count", "1${RAG_BATCH}", "17"),
        ("count", "7", "7"),
        ("seconds", "${RAG_SECONDS}", 2.5),
        ("seconds", "${RAG_BATCH}", 7),
        ("seconds", "${RAG_NAN}", "nan"),
        ("on", "${RAG_YES}", True),
        ("on", "${RAG_MISSING:-false}", False),
        ("on", "${RAG_BATCH}", "7"),
        ("either", "${RAG_BATCH}", "7"),
        ("maybe", "${RAG_BATCH}", 7),
        ("nested", {"count": "${RAG_BATCH}"}, {"count": 7}),
        ("list", ["${RAG_BATCH}", 1], [7, 1]),
    ],
)
def test_a_lone_placeholder_becomes_what_the_schema_wants(placeholders, field, written, meant):
    found = placeholders.resolve({field: written}, TYPED)[field]
    assert found == meant
    assert type(found) is type(meant)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("${RAG_MISSING}", "The variable RAG_MISSING is not set"),
        ("${PATH}", "The variable PATH is not among those allowed here"),
        ("${PATH:-default}", "The variable PATH is not among those allowed here"),
        ("${openai_api_key}", "The variable openai_api_key is not among"),
        ("${RAG_CATALOG_URL}", "The variable RAG_CATALOG_URL is not among"),
        ("${SOME_DATABASE_URL}", "The variable SOME_DATABASE_URL holds a URL with credentials"),
        ("${}", "A placeholder is"),
        ("${OPENAI_API_KEY", "A placeholder is"),
        ("${OPENAI_API_KEY:+x}", "A placeholder is"),
        ("${1X}", "A placeholder is"),
        ("${ OPENAI_API_KEY }", "A placeholder is"),
        ("${RAG_A:-${OPENAI_API_KEY}}", "A placeholder is"),
        ("${RAG_Ä}", "A placeholder is"),
    ],
)
def test_what_cannot_be_resolved_is_named_with_its_place_and_without_a_value(placeholders, written, sentence):
    config = {"fine": "${OPENAI_API_KEY}", "a/b": [{"c~": written}]}
    [fault] = placeholders.faults(config)
    assert fault.pointer == "/a~1b/0/c~0"
    assert fault.message.startswith(sentence)
    with pytest.raises(UnresolvedPlaceholderError) as caught:
        placeholders.resolve(config, {})
    assert caught.value.details["errors"] == [{"pointer": fault.pointer, "message": fault.message}]
    assert "planted" not in str(caught.value) + str(caught.value.details)


def test_the_operators_patterns_are_instead_of_ours():
    placeholders = Placeholders({**ENVIRON, "MINE_A": "x"}, patterns=["MINE_*"])
    assert placeholders.available() == ["MINE_A"]
    assert placeholders.faults({"a": "${MINE_A}${OPENAI_API_KEY}"})[0].message.startswith("The variable OPENAI_API_KEY")


def test_the_catalogue_stays_closed_whatever_the_patterns():
    assert Placeholders(ENVIRON, patterns=["*"]).faults({"a": "${RAG_CATALOG_URL}"})


def test_names_are_listed_once_in_order(placeholders):
    assert placeholders.names({"a": "${B}${A:-x}$${C}", "b": ["${B}", "${file:/x}", "${"]}) == ["B", "A"]
    assert placeholders.names("text with ${OPENAI_API_KEY}") == ["OPENAI_API_KEY"]


def test_a_file_is_read_without_its_last_newline(placeholders, secret_dir):
    (secret_dir / "windows").write_bytes(b"a\n\r\n")
    for name, content in (("key", "sk-from-file"), ("windows", "a\n")):
        assert placeholders.resolve({"k": f"${{file:{secret_dir}/{name}}}"}, {}) == {"k": content}


def test_a_link_within_the_directory_is_followed(placeholders, secret_dir):
    (secret_dir / "..data").mkdir()
    (secret_dir / "..data" / "inner").write_text("x")
    (secret_dir / "link").symlink_to("..data/inner")
    assert placeholders.resolve({"k": f"${{file:{secret_dir}/link}}"}, {}) == {"k": "x"}


@pytest.mark.parametrize(
    "written",
    [
        "/etc/hostname",
        "/etc/no-such-file",
        "/proc/self/environ",
        "{secrets}/../outside",
        "{secrets}/../secrets-too/key",
        "{secrets}/link-out",
        "{secrets}/link-to-root/etc/hostname",
        "key",
        "./key",
        "",
        "~/key",
        "{secrets}x",
    ],
)
def test_no_file_outside_is_read_and_none_is_said_to_exist(placeholders, secret_dir, written, monkeypatch):
    monkeypatch.chdir(secret_dir)
    (secret_dir.parent / "outside").write_text("planted")
    (secret_dir.parent / "secrets-too").mkdir()
    (secret_dir.parent / "secrets-too" / "key").write_text("planted")
    (secret_dir / "link-out").symlink_to(secret_dir.parent / "outside")
    (secret_dir / "link-to-root").symlink_to("/")
    [fault] = placeholders.faults({"k": f"${{file:{written.format(secrets=secret_dir)}}}"})
    assert "is not below a directory that is allowed here (RAG_SECRET_DIRS)" in fault.message
    assert str(secret_dir) not in fault.message


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "name", ["missing", "fifo", "directory", "large", "binary", "loop", "device", "nul\0", "x" * 300]
)
def test_what_is_no_readable_small_text_file_is_refused(placeholders, secret_dir, name):
    os.mkfifo(secret_dir / "fifo")
    (secret_dir / "directory").mkdir()
    (secret_dir / "large").write_text("x" * (MAX_FILE_BYTES + 1))
    (secret_dir / "binary").write_bytes(b"\xff\xfe")
    (secret_dir / "loop").symlink_to("loop")
    (secret_dir / "device").symlink_to("/dev/zero")
    [fault] = placeholders.faults({"k": f"${{file:{secret_dir}/{name}}}"})
    assert re.match("The file of a placeholder (cannot be read|is not below)", fault.message)
    assert str(secret_dir) not in fault.message


def test_the_secret_directory_may_be_a_link_itself(secret_dir):
    (secret_dir.parent / "alias").symlink_to(secret_dir)
    placeholders = Placeholders({}, secret_dirs=[secret_dir.parent / "alias"])
    assert placeholders.resolve({"k": f"${{file:{secret_dir.parent}/alias/key}}"}, {}) == {"k": "sk-from-file"}


def test_no_directory_allows_no_file(secret_dir):
    assert Placeholders({}, secret_dirs=[]).faults({"k": f"${{file:{secret_dir}/key}}"})
    assert Placeholders({}).faults({"k": f"${{file:{Path(__file__)}}}"})


def test_what_is_nested_beyond_reason_is_refused_and_not_followed(placeholders):
    config: dict = {}
    for _ in range(900):
        config = {"a": config}
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        placeholders.resolve(config, {})


@pytest.mark.parametrize(
    "value", ["sk-literal", "Bearer ${OPENAI_API_KEY}", "${OPENAI_API_KEY}x", "${}", "$$", 7, ["x"], ""]
)
def test_a_secret_is_not_stored_as_it_is(value):
    faults = secret_faults({"url": "http://host", "api_key": value}, read_schema("embedding-openai"))
    assert [fault.pointer for fault in faults] == ["/api_key"]
    assert "literal" not in faults[0].message


@pytest.mark.parametrize(
    "value", ["${OPENAI_API_KEY}", "${OPENAI_API_KEY:-none}", "${file:/run/secrets/key}", "${RAG_A}${RAG_B}", None]
)
def test_a_secret_is_stored_as_placeholders(value):
    assert secret_faults({"api_key": value}, read_schema("embedding-openai")) == []


def test_a_secret_within_another_field_counts_too():
    schema = {"properties": {"auth": {"properties": {"token": {"writeOnly": True, "title": "Token"}}}}}
    assert secret_faults({"auth": {"token": "x"}}, schema) == [
        Fault("/auth/token", secret_faults({"auth": {"token": "x"}}, schema)[0].message)
    ]
    assert secret_faults({"auth": "x"}, schema) == []


@pytest.mark.parametrize(
    ("text", "holds"), [("${A}", True), ("$${A}", False), ("$$${A}", True), ("a$${B}c${D}", True), ("$A", False)]
)
def test_two_dollar_signs_are_no_placeholder(text, holds):
    assert has_placeholder(text) is holds
