"""Secrets are bound to hosts, read from allowed files only, and stored as placeholders only."""

import os
import re
from pathlib import Path

import pytest

from registry.placeholders.resolving import MAX_FILE_BYTES, Placeholders
from registry.placeholders.secret_fields import secret_faults
from registry.placeholders.secret_hosts import SecretHosts
from schemas.configuration import read_schema
from schemas.connections import Fault
from schemas.errors import ConfigurationError
from tests.registry.placeholders.conftest import ADDRESS, SECRETS

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
