"""What is wrong with the settings of backups is told before anything is started."""

import base64
import os

import pytest

from interfaces.start_checks import look_before_start
from tests.support.live import free_port


@pytest.fixture
def environ(monkeypatch, tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    kept |= {"RAG_DATA_DIR": str(tmp_path / "data"), "RAG_PORT": str(free_port())}
    monkeypatch.setattr(os, "environ", kept)
    return kept


def test_a_key_that_every_user_can_read_is_warned_of(environ, tmp_path):
    key = tmp_path / "key"
    key.write_text(base64.b64encode(bytes(32)).decode())
    environ["RAG_BACKUP_KEY_FILE"] = str(key)
    for mode in (0o600, 0o640):
        key.chmod(mode)
        assert look_before_start().warnings == []
    key.chmod(0o644)
    found = look_before_start()
    (warning,) = found.warnings
    assert warning.startswith("RAG_BACKUP_KEY_FILE: ")
    assert (found.problems, str(tmp_path) in warning) == ([], False)


def test_a_folder_for_backups_that_is_the_services_own_stops_the_start(environ, tmp_path):
    environ["RAG_BACKUP_DIR"] = str(tmp_path / "data" / "originals")
    (problem,) = look_before_start().problems
    assert problem.startswith("RAG_BACKUP_DIR: the folder originals")
    environ["RAG_BACKUP_DIR"] = str(tmp_path / "data" / "backups")
    assert look_before_start().problems == []
