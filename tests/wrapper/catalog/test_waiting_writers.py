"""How long a writer waits: once in all, behind writers of its own process and for other processes; and what writes the
embedded catalogue anew for other connections."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from schemas.errors import UnavailableError
from tests.support.live import PATIENCE_SECONDS, eventually
from wrapper.catalog.catalog import Catalog, Write
from wrapper.catalog.contract import LOCKED, WAIT_SECONDS, LockedError
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.coalescing import Ticket


class _Locked:
    """A database that another process keeps locked for ever."""

    kind = "sqlite"
    errors = ()

    def __init__(self):
        self.waited = []

    @contextmanager
    def write(self, *, durable=True, wait_seconds):
        self.waited.append(wait_seconds)
        raise LockedError(LOCKED)
        yield


def test_a_group_of_writers_waits_for_the_lock_once():
    database = _Locked()
    jobs = [Ticket(Write(lambda transaction: None, 0.0)) for _ in range(5)]
    Catalog(database, lambda: 0.0)._commit_together(jobs)
    assert database.waited == [WAIT_SECONDS]
    for job in jobs:
        with pytest.raises(UnavailableError):
            job.outcome()


def test_time_spent_waiting_for_a_turn_counts_towards_the_wait_for_the_lock():
    database, now = _Locked(), WAIT_SECONDS - 10
    own, later = Ticket(Write(lambda transaction: None, 0.0)), Ticket(Write(lambda transaction: None, 5.0))
    catalog = Catalog(database, lambda: now)
    catalog._commit_together([own, later])
    assert database.waited == [10]
    with pytest.raises(LockedError):
        own.outcome()
    # It came later and has a turn of its own.
    assert not later.settled
    catalog._commit_together([later])
    assert database.waited == [10, 15]


def test_after_a_group_that_failed_each_waits_only_for_what_it_has_left():
    class Failing(_Locked):
        def write(self, **how):
            if not self.waited:
                now[0] += 20
                self.waited.append(how["wait_seconds"])
                raise ValueError("whose fault it is is not known")
            return super().write(**how)

    database, now = Failing(), [0.0]
    jobs = [Ticket(Write(lambda transaction: None, 0.0)) for _ in range(3)]
    Catalog(database, lambda: now[0])._commit_together(jobs)
    assert database.waited == [WAIT_SECONDS, *[WAIT_SECONDS - 20] * 3]


@contextmanager
def held(write):
    """Have another thread write as long as the block lasts."""
    begun, over = threading.Event(), threading.Event()

    def hold(_transaction):
        begun.set()
        assert over.wait(PATIENCE_SECONDS)

    thread = threading.Thread(target=write, args=(hold,))
    thread.start()
    try:
        assert begun.wait(PATIENCE_SECONDS)
        yield
    finally:
        over.set()
        thread.join(PATIENCE_SECONDS)


def test_a_writer_behind_a_long_write_of_its_process_is_told_so_while_that_goes_on(open_database):
    database = open_database()
    Catalog(database).open()
    catalog, written = Catalog(database, lambda: 0.0, wait_seconds=0.01), []
    with held(catalog.commit):
        for write in (catalog.commit, catalog.commit_quickly):
            with pytest.raises(LockedError):
                write(written.append)
    assert written == []
    catalog.commit(lambda transaction: written.append("now"))
    assert written == ["now"]


def test_a_writer_that_has_waited_long_enough_behind_others_does_not_wait_again(open_database):
    """A write holds the database for longer than a turn may take: the first writer that came meanwhile is refused, and
    one that comes at the end is served."""
    now = [0.0]
    catalog = Catalog(open_database(), lambda: now[0])
    catalog.open()
    with ThreadPoolExecutor(2) as threads:
        with held(catalog.commit):
            early = threads.submit(catalog.commit, lambda transaction: "early")
            eventually(lambda: catalog._commits.waiting == 1)
            now[0] = WAIT_SECONDS + 1
            late = threads.submit(catalog.commit, lambda transaction: "late")
            eventually(lambda: catalog._commits.waiting == 2)
        assert late.result(PATIENCE_SECONDS) == "late"
        with pytest.raises(LockedError):
            early.result(PATIENCE_SECONDS)


def test_a_lock_that_is_held_is_told_from_a_catalogue_that_is_gone(open_database):
    holder, other = open_database(), open_database()
    Catalog(holder).open()

    def write_at_length(work):
        with holder.write() as transaction:
            work(transaction)

    with held(write_at_length):
        impatient = Catalog(other, lambda: 0.0, wait_seconds=0.01)
        for write in (impatient.commit, impatient.commit_quickly):
            with pytest.raises(LockedError):
                write(lambda transaction: None)
    # The patience of one write is not that of the next.
    assert _patience_ms(other) == WAIT_SECONDS * 1e3


def _patience_ms(database):
    with database.read() as transaction:
        if database.kind == "sqlite":
            return transaction.value("PRAGMA busy_timeout")
        return transaction.value("SELECT setting::int FROM pg_settings WHERE name = 'lock_timeout'")


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


def test_it_waits_for_another_connection_that_moves_the_log_and_tells_of_it_when_the_time_is_over(path, checkpointing):
    others, pauses = [], []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            others[0].communicate("")

    database = SQLiteDatabase(path, clock=lambda: float(len(pauses)), pause=pause)
    with database.write() as transaction:
        transaction.run("CREATE TABLE words (word TEXT)")
    others.append(checkpointing())
    assert database.rewrite(wait_seconds=60.0) is None
    assert len(pauses) == 3
    assert path.with_name(f"{path.name}-wal").stat().st_size == 0
    with database.write() as transaction:
        transaction.run("CREATE TABLE others (word TEXT)")
    checkpointing()
    assert database.rewrite(wait_seconds=5.0) == "a read that began before is still under way"
    assert len(pauses) == 3 + 5
    database.close()
