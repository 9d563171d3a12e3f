"""The embedded catalogue: SQLite in WAL mode, one file, several processes.

A commit is on disk before it counts (`synchronous=FULL`). Reads see one snapshot for as long as their transaction
lasts; writes take the write lock at once (`BEGIN IMMEDIATE`), so that nothing they read is ever stale.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import structlog
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from schemas.errors import DiskFloorError, RagError, TooComplexError, TooSlowError, UnavailableError
from schemas.storage.read_limits import ReadLimit
from schemas.words.regular_expressions import matches
from wrapper.catalog.contract import (
    CLOSED,
    DEFECT,
    LOCKED,
    TOO_COMPLEX,
    TOO_SLOW,
    WAIT_SECONDS,
    ChangeCounter,
    LockedError,
    Transaction,
)
from wrapper.catalog.sqlite.transaction import MATCHES, Deadline, SQLiteDialect, SQLiteTransaction

log = structlog.get_logger(__name__)

BUSY_TIMEOUT_SECONDS = 30.0
BUSY_PAUSE_SECONDS = 0.02
CACHE_KIB = 8_192
STATEMENT_SECONDS = 20.0
INSTRUCTIONS_BETWEEN_LOOKS = 10_000
PRIMARY = 0xFF
"""The bits of an extended error code that say of what kind it is."""
OUTAGES = frozenset(
    (
        *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM),
        *(sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY),
    )
)
"""The kinds of errors that say something of the file or the machine, and nothing of the request."""
TOO_COMPLEX_REASONS = (
    *("parser stack overflow", "too many SQL variables", "Expression tree is too large", "too many terms in"),
    *("query string is too large", "string or blob too big", "BLOB longer than", "string longer than"),
    *("at most 64 tables in a join", "too many columns", "too many FROM clause terms", "too many arguments"),
)
"""How the reasons begin that are limits of SQLite and have no kind of their own."""


class SQLiteDatabase:
    """Connections and transactions on one SQLite file.

    A connection serves one transaction at a time, and the next transaction takes the connection that was used last: its
    cache is warm, and there are never more connections than there were transactions at the same moment.
    """

    kind = "sqlite"
    servers: ClassVar[list[tuple[str, int]]] = []
    errors: ClassVar[tuple[type[Exception], ...]] = (SQLAlchemyError, sqlite3.Error)

    def __init__(
        self,
        path: Path,
        *,
        statement_seconds: float = STATEMENT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._path = path
        self._statement_seconds = statement_seconds
        self._clock = clock
        self._pause = pause
        self._engine: Engine = create_engine(
            f"sqlite:///{path}",
            poolclass=NullPool,
            connect_args={"timeout": BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
        )
        event.listen(self._engine, "connect", _prepare)
        self._dialect = SQLiteDialect()
        self._idle: dict[bool, list[SQLiteTransaction]] = {True: [], False: []}  # by whether they are durable
        self._is_closed = False

    @contextmanager
    def read(self, limit: ReadLimit | None = None) -> Iterator[Transaction]:
        """Open a read transaction on one snapshot; its statements end with the limit."""
        yield from self._transaction("BEGIN", durable=True, limit=limit)

    @contextmanager
    def write(self, *, durable: bool = True, wait_seconds: float = WAIT_SECONDS) -> Iterator[Transaction]:
        """Open a transaction that holds the write lock; it commits at the end and rolls back on an exception.

        A write that is not `durable` is visible to all at once, but reaches the disk only with the next durable commit.
        """
        yield from self._transaction("BEGIN IMMEDIATE", durable=durable, wait_seconds=wait_seconds)

    def migrate(self, step: Callable[[Connection], None]) -> None:
        """Run a schema change in a write transaction."""
        with self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            step(connection)
            connection.commit()

    @contextmanager
    def change_counter(self) -> Iterator[ChangeCounter]:
        """Open a counter of commits, which belongs to the thread that opened it."""
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_SECONDS)
        try:
            yield _DataVersion(connection)
        finally:
            connection.close()

    def rewrite(self, *, wait_seconds: float) -> str | None:
        """Write the file anew, and empty its write-ahead log.

        It needs free disk space for two more copies. Writers wait meanwhile, readers do not. A read that began before
        keeps the log from being emptied.
        """
        ends_at = self._clock() + wait_seconds
        # A connection of its own: the others keep what they sort in memory, where a whole database has no room.
        with closing(sqlite3.connect(self._path, timeout=wait_seconds, isolation_level=None)) as connection:
            connection.execute("VACUUM")
            while True:
                left_seconds = max(0.0, ends_at - self._clock())
                connection.execute(f"PRAGMA busy_timeout = {int(left_seconds * 1e3)}")
                busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not busy:
                    return None
                if self._clock() >= ends_at:
                    return "a read that began before is still under way"
                # SQLite waits for reads, and not for another connection that moves the log into the file.
                self._pause(BUSY_PAUSE_SECONDS)

    def close(self) -> None:
        """Close every connection for good. Transactions under way end first, in their threads.

        SQLite crashes when a connection is closed while another thread uses it.
        """
        self._is_closed = True
        self._close_idle()
        self._engine.dispose()

    def translated(self, error: Exception) -> RagError:
        """Return one of `errors` as an error of the service."""
        cause = getattr(error, "orig", error)
        reason, code = str(cause), getattr(cause, "sqlite_errorcode", None)
        kind = None if code is None else code & PRIMARY
        if kind == sqlite3.SQLITE_INTERRUPT:
            return TooSlowError(TOO_SLOW)
        if kind == sqlite3.SQLITE_TOOBIG or reason.startswith(TOO_COMPLEX_REASONS):
            return TooComplexError(TOO_COMPLEX)
        log.error("catalogue failed", error=reason)
        if kind == sqlite3.SQLITE_FULL:
            return DiskFloorError("The disk is full: nothing was stored")
        if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return LockedError(LOCKED)
        if kind in OUTAGES:
            return UnavailableError("The catalogue is unavailable", code="catalog_unavailable")
        return RagError(DEFECT)

    def _transaction(
        self, begin: str, *, durable: bool, wait_seconds: float | None = None, limit: ReadLimit | None = None
    ) -> Iterator[Transaction]:
        try:
            transaction = self._idle[durable].pop()
        except IndexError:
            transaction = self._new_transaction(durable=durable)
        try:
            _begin(transaction, begin, wait_seconds)
            transaction.deadline.limit = limit
            try:
                yield transaction
                transaction.deadline.limit = None
                transaction.run("COMMIT")
            except BaseException:
                transaction.deadline.limit = None
                transaction.roll_back()
                raise
        finally:
            self._idle[durable].append(transaction)
            if self._is_closed:
                self._close_idle()

    def _close_idle(self) -> None:
        for idle in self._idle.values():
            with suppress(IndexError):  # several threads may do this
                while True:
                    idle.pop().close()

    def _new_transaction(self, *, durable: bool) -> SQLiteTransaction:
        if self._is_closed:
            raise UnavailableError(CLOSED, code="catalog_unavailable")
        connection = self._engine.raw_connection()
        deadline = Deadline(self._clock, self._statement_seconds)
        driver: Any = connection.driver_connection
        driver.set_progress_handler(deadline.is_over, INSTRUCTIONS_BETWEEN_LOOKS)
        transaction = SQLiteTransaction(connection, self._dialect, deadline)
        if not durable:
            transaction.run("PRAGMA synchronous = NORMAL")
        return transaction


class _DataVersion:
    descriptor = None

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __call__(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])


def _begin(transaction: Transaction, begin: str, wait_seconds: float | None) -> None:
    if wait_seconds is None:
        transaction.run(begin)
        return
    transaction.run(f"PRAGMA busy_timeout = {int(wait_seconds * 1e3)}")
    try:
        transaction.run(begin)
    finally:
        transaction.run(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_SECONDS * 1e3)}")


def _prepare(connection: DBAPIConnection, _record: object) -> None:
    # The driver must not open transactions of its own: each transaction says which kind it is.
    connection.isolation_level = None
    connection.create_function(MATCHES, 2, matches, deterministic=True)
    cursor = connection.cursor()
    _use_write_ahead_log(cursor)
    for pragma in (
        "synchronous = FULL",
        "temp_store = MEMORY",
        f"cache_size = -{CACHE_KIB}",
        "journal_size_limit = 67108864",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


@retry(
    retry=retry_if_exception_type(sqlite3.OperationalError),
    wait=wait_fixed(BUSY_PAUSE_SECONDS),
    stop=stop_after_delay(BUSY_TIMEOUT_SECONDS),
    reraise=True,
)
def _use_write_ahead_log(cursor: DBAPICursor) -> None:
    # When two connections ask for this on a new file, SQLite refuses one at once: it does not wait here as elsewhere.
    cursor.execute("PRAGMA journal_mode = WAL")
