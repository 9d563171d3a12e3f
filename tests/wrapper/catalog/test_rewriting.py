"""The embedded catalogue is written anew beside other connections."""

import subprocess
import sys

import pytest

from wrapper.catalog.sqlite.database import SQLiteDatabase

HOLD_CHECKPOINT_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+b") as shared:
    fcntl.lockf(shared, fcntl.LOCK_EX, 1, 121)
    print("held", flush=True)
    sys.stdin.read()
"""
"""Holds the lock that a connection has while it moves the log into the file (SQLite's file format, "WAL Locks")."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "catalog.sqlite"


@pytest.fixture
def checkpointing(path):
    """`checkpointing()` has another process move the log into the file until it is `communicate`d with."""
    begun = []

    def begin():
        other = subprocess.Popen(
            [sys.executable, "-c", HOLD_CHECKPOINT_LOCK, f"{path}-shm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        begun.append(other)
        assert other.stdout.readline() == "held\n"
        return other

    yield begin
    for each in begun:
        with each:
            each.kill()


def test_it_waits_for_another_connection_that_moves_the_log(path, checkpointing):
    others, pauses = [], []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            others[0].communicate("")

    database = SQLiteDatabase(path, pause=pause)
    with database.write() as transaction:
        transaction.run("CREATE TABLE words (word TEXT)")
    others.append(checkpointing())
    assert database.rewrite(wait_seconds=60.0) is None
    assert len(pauses) == 3
    assert path.with_name(f"{path.name}-wal").stat().st_size == 0
    database.close()


def test_what_keeps_the_log_is_told_when_the_time_is_over(path, checkpointing):
    now = [0.0]

    def pause(seconds):
        now[0] += 1.0

    database = SQLiteDatabase(path, clock=lambda: now[0], pause=pause)
    with database.write() as transaction:
        transaction.run("CREATE TABLE words (word TEXT)")
    checkpointing()
    assert database.rewrite(wait_seconds=5.0) == "a read that began before is still under way"
    assert now == [5.0]
    database.close()
