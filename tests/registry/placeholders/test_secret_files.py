"""A placeholder for a file reads only files below an allowed directory."""

import os
import re
from pathlib import Path

import pytest

from registry.placeholders.resolving import MAX_FILE_BYTES, Placeholders
from tests.registry.placeholders.planted import SECRETS


def test_a_file_is_read_without_its_last_newline(placeholders, secret_dir):
    (secret_dir / "windows").write_bytes(b"a\n\r\n")
    for name, content in (("key", "sk-from-file"), ("windows", "a\n")):
        assert placeholders.resolve({"k": f"${{file:{secret_dir}/{name}}}"}, SECRETS).config == {"k": content}


def test_a_link_within_the_directory_is_followed(placeholders, secret_dir):
    (secret_dir / "..data").mkdir()
    (secret_dir / "..data" / "inner").write_text("x")
    (secret_dir / "link").symlink_to("..data/inner")
    assert placeholders.resolve({"k": f"${{file:{secret_dir}/link}}"}, SECRETS).config == {"k": "x"}


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


@pytest.mark.timeout(10)
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


def test_the_secret_directory_may_be_a_link_itself(secret_dir):
    (secret_dir.parent / "alias").symlink_to(secret_dir)
    placeholders = Placeholders({}, secret_dirs=[secret_dir.parent / "alias"])
    assert placeholders.resolve({"k": f"${{file:{secret_dir.parent}/alias/key}}"}, SECRETS).config == {
        "k": "sk-from-file"
    }


def test_without_a_directory_no_file_is_allowed(secret_dir):
    assert Placeholders({}, secret_dirs=[]).faults({"k": f"${{file:{secret_dir}/key}}"}, SECRETS)
    assert Placeholders({}).faults({"k": f"${{file:{Path(__file__)}}}"}, SECRETS)


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
