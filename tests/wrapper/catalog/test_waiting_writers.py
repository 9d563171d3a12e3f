"""Writers that waited for the lock together have waited enough."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from schemas.errors import UnavailableError
from tests.support.live import eventually
from wrapper.catalog.catalog import TURN_SECONDS, Catalog, Write
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
    jobs = [Ticket(Write(lambda transaction: None, 0.0)) for _ in range(5)]
    Catalog(database, lambda: 0.0)._commit_together(jobs)
    assert database.tries == 1
    for job in jobs:
        with pytest.raises(UnavailableError):
            job.outcome()


def test_who_has_waited_long_enough_behind_others_waits_for_nobody_again(open_database):
    """A write holds the database for longer than a turn may take: of those who came meanwhile the first is told so, and
    who comes at the end is served."""
    now = [0.0]
    catalog = Catalog(open_database(), lambda: now[0])
    catalog.open()
    holding, done = threading.Event(), threading.Event()
    outcomes = {}

    def hold(transaction):
        holding.set()
        done.wait(60)

    def write(name, operation):
        try:
            outcomes[name] = catalog.commit(operation)
        except UnavailableError as error:
            outcomes[name] = error

    def begin(name, operation):
        thread = threading.Thread(target=write, args=(name, operation))
        thread.start()
        return thread

    threads = [begin("long", hold)]
    assert holding.wait(60)
    try:
        threads.append(begin("early", lambda transaction: "early"))
        eventually(lambda: catalog._commits.waiting == 1, seconds=60)
        now[0] = TURN_SECONDS + 1
        threads.append(begin("late", lambda transaction: "late"))
        eventually(lambda: catalog._commits.waiting == 2, seconds=60)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert (outcomes["long"], outcomes["late"]) == (None, "late")
    assert isinstance(outcomes["early"], LockedError)


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
