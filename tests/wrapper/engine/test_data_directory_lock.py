import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from schemas.errors import ConfigurationError
from tests.support.live import eventually
from wrapper.engine.data_directory_lock import acquire, serving_address

DESCRIPTION = {"command": "rag-wrapper serve", "address": "http://127.0.0.1:5006"}


def started():
    return datetime(2026, 11, 21, 8, 30, tzinfo=UTC)


def test_a_second_owner_is_refused_and_told_who_is_there(tmp_path):
    lock = acquire(tmp_path / "data", description=DESCRIPTION, now=started)
    with pytest.raises(ConfigurationError) as refused:
        acquire(tmp_path / "data", description=DESCRIPTION)
    assert refused.value.message == (
        f"The data directory {tmp_path / 'data'} is in use by process {os.getpid()} "
        "since 2026-11-21T08:30:00+00:00, serving http://127.0.0.1:5006"
    )
    lock.release()
    acquire(tmp_path / "data", description={}).release()


def test_others_are_told_where_the_owner_serves_as_long_as_it_serves_anything(tmp_path):
    assert serving_address(tmp_path / "nowhere") is None
    lock = acquire(tmp_path, description=DESCRIPTION)
    assert serving_address(tmp_path) == "http://127.0.0.1:5006"
    lock.release()
    assert serving_address(tmp_path) is None
    lock = acquire(tmp_path, description={"command": "rag-wrapper"})
    assert serving_address(tmp_path) is None
    lock.path.write_text("[]")
    assert serving_address(tmp_path) is None
    lock.release()


def test_a_holder_that_has_not_said_who_it_is_still_holds(tmp_path):
    lock = acquire(tmp_path, description={})
    lock.path.write_text("")
    with pytest.raises(ConfigurationError, match=r"in use by another process$"):
        acquire(tmp_path, description={})
    lock.release()


def test_a_program_started_by_the_owner_does_not_hold_the_lock(tmp_path):
    lock = acquire(tmp_path, description={})
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as program:
        program.stdout.readline()
        lock.release()
        acquire(tmp_path, description={}).release()
        program.communicate(b"\n")


FORK = """
import os, sys
from pathlib import Path
from wrapper.engine.data_directory_lock import acquire
lock = acquire(Path(sys.argv[1]), description={})
if os.fork() == 0:
    print(flush=True)
    input()
    os._exit(0)
lock.release()
os._exit(0)
"""


def test_a_forked_worker_holds_the_lock_after_its_parent_is_gone(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", FORK, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        parent.stdout.readline()
        assert parent.wait() == 0
        with pytest.raises(ConfigurationError):
            acquire(tmp_path, description={})
        parent.stdin.write(b"\n")
        parent.stdin.close()
        eventually(lambda: _free(tmp_path))


def _free(data_dir):
    try:
        acquire(data_dir, description={}).release()
    except ConfigurationError:
        return False
    return True
