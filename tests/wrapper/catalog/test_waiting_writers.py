"""Writers that waited for the lock together have waited enough."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from schemas.errors import UnavailableError
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.database import LOCKED, LockedError
from wrapper.combining import Ticket


class _Locked:
    """A database that somebody else writes for ever."""

    kind = "sqlite"
    errors = ()

    def __init__(self):
        self.tries = 0

    @contextmanager
    def write(self, *, durable=True):
        self.tries += 1
        raise LockedError(LOCKED)
        yield


def test_a_group_of_writers_waits_for_the_lock_once():
    database = _Locked()
    jobs = [Ticket(lambda transaction: None) for _ in range(5)]
    Catalog(database)._commit_together(jobs)
    assert database.tries == 1
    for job in jobs:
        with pytest.raises(UnavailableError):
            job.outcome()


def test_a_lock_that_is_held_is_told_from_a_catalogue_that_is_gone(open_database):
    holder, other = open_database(), open_database()
    Catalog(holder).open()
    held, done = threading.Event(), threading.Event()

    def hold():
        with holder.write():
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    try:
        impatient = "PRAGMA busy_timeout = 1" if other.kind == "sqlite" else "SET lock_timeout = 1"
        with other.read() as transaction:
            if other.kind == "sqlite":
                transaction.rows(impatient)
            else:
                transaction.connection.execute(impatient.encode())
        with pytest.raises(LockedError):
            Catalog(other).commit(lambda transaction: None)
    finally:
        done.set()
        thread.join()
