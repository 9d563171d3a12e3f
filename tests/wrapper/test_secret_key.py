"""The key file: made once, for its owner only, and never half written."""

import errno
import os
import stat
import threading

import pytest
from cryptography.fernet import Fernet

from schemas.errors import ConfigurationError
from schemas.settings import AccessSettings
from tests.support.live import PATIENCE_SECONDS
from wrapper.secret_key import KEY_FILE, KeyFile, secret_keys


@pytest.fixture
def file(tmp_path):
    file = KeyFile(tmp_path)
    file.make()
    return file


def test_the_file_is_made_for_its_owner_only(tmp_path):
    before = os.umask(0)
    try:
        KeyFile(tmp_path).make()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    [key] = KeyFile(tmp_path)()
    Fernet(key)


def test_many_that_start_together_have_one_key(tmp_path):
    together, keys = threading.Barrier(16), []

    def start():
        file = KeyFile(tmp_path)
        together.wait(PATIENCE_SECONDS)
        file.make()
        keys.append(file())

    threads = [threading.Thread(target=start) for _ in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE_SECONDS)
    assert (len(keys), len(set(keys))) == (16, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [KEY_FILE]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o666])
def test_a_file_that_is_open_to_others_is_refused(file, tmp_path, mode):
    file()
    (tmp_path / KEY_FILE).chmod(mode)
    for use in (file, KeyFile(tmp_path), KeyFile(tmp_path).make, KeyFile(tmp_path).check):
        with pytest.raises(ConfigurationError, match=r"secret\.key in the data directory is open to other") as caught:
            use()
        assert str(tmp_path) not in caught.value.message
    (tmp_path / KEY_FILE).chmod(0o600)
    assert file()


@pytest.mark.parametrize("content", ["", "\n", "x", "ä" * 44, "=" * 44, "x" * 100_000])
def test_a_file_without_a_key_is_refused_and_not_replaced(tmp_path, content):
    path = tmp_path / KEY_FILE
    path.touch(0o600)
    path.write_text(content)
    for use in (KeyFile(tmp_path), KeyFile(tmp_path).make, KeyFile(tmp_path).check):
        with pytest.raises(ConfigurationError, match="holds no key: put it back"):
            use()
    assert path.read_text() == content


def test_a_missing_file_stops_no_start_but_opens_nothing(tmp_path):
    KeyFile(tmp_path).check()
    with pytest.raises(ConfigurationError, match="is missing"):
        KeyFile(tmp_path)()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be written to"):
        KeyFile(tmp_path / "file").make()
    (tmp_path / KEY_FILE).symlink_to(tmp_path / "nowhere")
    for use in (KeyFile(tmp_path), KeyFile(tmp_path).make, KeyFile(tmp_path).check):
        with pytest.raises(ConfigurationError, match="is missing or cannot be read"):
            use()


def test_another_process_sees_a_change_at_once(file, tmp_path):
    other = KeyFile(tmp_path)
    [old] = other()
    file.add()
    new, second = other()
    assert second == old
    file.drop_old()
    assert other() == (new,)


def test_what_a_killed_writer_left_is_removed_with_the_next_change(file, tmp_path):
    left = tmp_path / f"{KEY_FILE}.abc"
    left.write_text("a key")
    file.add()
    assert not left.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_that_an_administrator_writes_stays_the_services(file, tmp_path):
    os.chown(tmp_path / KEY_FILE, 10001, 10002)
    file.add()
    file.drop_old()
    status = (tmp_path / KEY_FILE).stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (10001, 10002, 0o600)


def test_a_disk_that_takes_no_file_is_said_and_the_key_stays(file, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = file()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match="cannot be written to: No space left"):
        file.add()
    monkeypatch.undo()
    assert KeyFile(tmp_path)() == before
    file.add()
    assert sorted(path.name for path in tmp_path.iterdir()) == [KEY_FILE]


def test_keys_of_the_settings_come_first(file, tmp_path):
    key = Fernet.generate_key().decode()
    assert secret_keys(tmp_path, AccessSettings(secret_key=(key,)))() == (key,)
    assert secret_keys(tmp_path, AccessSettings())() == file()
