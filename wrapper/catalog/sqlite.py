"""The embedded catalogue: SQLite in WAL mode, one file, several processes.

A commit is on disk before it counts (`synchronous=FULL`). Reads see one snapshot for as long as their
transaction lasts; writes take the write lock at once (`BEGIN IMMEDIATE`), so that nothing read is ever stale.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import QueuePool

from wrapper.catalog.transaction import Transaction

BUSY_TIMEOUT_SECONDS = 30
CACHE_KIB = 8_192
MMAP_BYTES = 1 << 34


class SQLiteDatabase:
    """Connections and transactions on one SQLite file."""

    def __init__(self, path: Path, *, connections: int = 32) -> None:
        self._path = path
        self._engine: Engine = create_engine(
            f"sqlite:///{path}",
            poolclass=QueuePool,
            pool_size=connections,
            max_overflow=connections,
            connect_args={"timeout": BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
        )
        event.listen(self._engine, "connect", _prepare)
        event.listen(self._engine, "begin", _begin)
        self._reading = self._engine.execution_options(rag_begin="BEGIN")
        self._writing = self._engine.execution_options(rag_begin="BEGIN IMMEDIATE")

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """One snapshot."""
        with self._reading.begin() as connection:
            yield Transaction(connection)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Holds the write lock; commits at the end, rolls back on an exception."""
        with self._writing.begin() as connection:
            yield Transaction(connection)

    def migrate(self, step: Callable[[Connection], None]) -> None:
        """Run a schema change in a write transaction."""
        with self._writing.begin() as connection:
            step(connection)

    @contextmanager
    def change_counter(self) -> Iterator[Callable[[], int]]:
        """A function whose number changes when another connection has committed; costs microseconds.

        It belongs to the thread that made it.
        """
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_SECONDS)
        try:
            yield lambda: int(connection.execute("PRAGMA data_version").fetchone()[0])
        finally:
            connection.close()

    def close(self) -> None:
        self._engine.dispose()


def _prepare(connection: DBAPIConnection, _record: object) -> None:
    # The driver must not open transactions of its own: `_begin` says which kind is meant.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "temp_store = MEMORY",
        f"cache_size = -{CACHE_KIB}",
        f"mmap_size = {MMAP_BYTES}",
        "journal_size_limit = 67108864",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    cursor = connection.connection.cursor()
    cursor.execute(connection.get_execution_options().get("rag_begin", "BEGIN"))
    cursor.close()
