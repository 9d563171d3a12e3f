"""A catalogue that is closed while threads use it: what they have begun ends first."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from schemas.errors import UnavailableError
from tests.support.live import PATIENCE_SECONDS
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import CLOSED


@pytest.fixture
def database(open_database):
    database = open_database()
    Catalog(database).open()
    yield database
    database.close()


def numbers(database):
    with database.read() as transaction:
        return [row[0] for row in transaction.rows("SELECT n FROM numbers ORDER BY n")]


@pytest.mark.parametrize("way", ["read", "write"])
def test_a_transaction_under_way_ends_in_its_thread_when_the_database_is_closed(database, open_database, way):
    with database.write() as transaction:
        transaction.run("CREATE TABLE numbers (n INTEGER)")
        transaction.run("INSERT INTO numbers VALUES (1)")
    began, closed = threading.Event(), threading.Event()

    def use():
        with getattr(database, way)() as transaction:
            found = [row[0] for row in transaction.rows("SELECT n FROM numbers")]
            began.set()
            assert closed.wait(PATIENCE_SECONDS)
            if way == "write":
                transaction.run("INSERT INTO numbers VALUES (2)")
            return found + [row[0] for row in transaction.rows("SELECT n FROM numbers ORDER BY n")]

    with ThreadPoolExecutor(1) as threads:
        used = threads.submit(use)
        assert began.wait(PATIENCE_SECONDS)
        database.close()
        closed.set()
        assert used.result(PATIENCE_SECONDS) == ([1, 1, 2] if way == "write" else [1, 1])
    assert numbers(open_database()) == ([1, 2] if way == "write" else [1])


def test_threads_that_write_while_the_database_is_closed_are_refused_or_stored(database, open_database):
    catalog = Catalog(database)
    with database.write() as transaction:
        transaction.run("CREATE TABLE numbers (n INTEGER)")
    written = threading.Semaphore(0)

    def write(first):
        stored = []
        try:
            for n in range(first, first + 1_000):
                catalog.commit_quickly(lambda transaction, n=n: transaction.run(f"INSERT INTO numbers VALUES ({n})"))
                stored.append(n)
                written.release()
        except UnavailableError as error:
            assert error.message == CLOSED
        return stored

    with ThreadPoolExecutor(4) as threads:
        writers = [threads.submit(write, first) for first in range(0, 4_000, 1_000)]
        for _ in range(20):
            assert written.acquire(timeout=PATIENCE_SECONDS)
        database.close()
        stored = sorted(n for writer in writers for n in writer.result(PATIENCE_SECONDS))
    assert 20 <= len(stored) < 4_000
    assert numbers(open_database()) == stored
