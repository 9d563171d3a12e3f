"""The shared catalogue: PostgreSQL, for several services with several processes on several machines.

A read is one snapshot (`REPEATABLE READ`). Writes of all processes follow each other: each holds an advisory lock from
its first statement to its commit, so that nothing it reads is ever stale and outbox ids are committed in their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, ClassVar

import psycopg
import structlog
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from schemas.errors import (
    ConfigurationError,
    DiskFloorError,
    RagError,
    TooComplexError,
    TooSlowError,
    UnavailableError,
)
from schemas.storage.read_limits import ReadLimit
from wrapper.catalog.contract import (
    CLOSED,
    DEFECT,
    LOCKED,
    TOO_COMPLEX,
    TOO_SLOW,
    WAIT_SECONDS,
    ChangeCounter,
    LockedError,
    OutcomeUnknownError,
    Transaction,
)
from wrapper.catalog.postgres import text
from wrapper.catalog.postgres.own_tables import own_tables
from wrapper.catalog.postgres.place import SCHEMA, enter_schema, find_schema, make_schema, rows_of
from wrapper.catalog.postgres.transaction import VALUE_BYTES, PostgresDialect, PostgresTransaction, WatchedConnection

log = structlog.get_logger(__name__)

DEFAULT_PORT = 5432
STATEMENT_SECONDS = 20.0
LOCK_SECONDS = 30
IDLE_WRITER_SECONDS = 60
"""The time after which an idle writer (its machine is gone, its process frozen) no longer keeps others waiting."""
RECONNECT_SECONDS = 0.5
SNAPSHOT_POLL_SECONDS = 0.05
NOW = (
    "SELECT pg_current_xact_id()::text, "
    "ARRAY(SELECT virtualxid FROM pg_locks WHERE locktype = 'virtualxid' AND pid <> pg_backend_pid())"
)
"""Returns the number of a transaction, and the names of all that are under way beside it."""
OLDER_SNAPSHOT = (
    "SELECT 1 FROM pg_stat_activity a LEFT JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'virtualxid' "
    "WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND (age(a.backend_xmin) > "
    "age((%s::xid8)::xid) OR (a.state IS NULL AND a.usesysid IS NOT NULL AND l.virtualxid = ANY(%s))) LIMIT 1"
)
"""Finds a transaction that still sees what was there before the transaction of that number. What those of other roles
see is hidden from ours: of them it finds each that was under way."""
CONNECTION = {
    "application_name": "rag-wrapper",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
# The database must notice soon that a client's machine is gone: only then are its locks free.
#
# Statements are built for each filter. A plan for any parameters is often a bad one, compiling pays only for statements
# that run for seconds, and joins are written in the intended order: looking for a better one among the hundreds of a
# wide filter takes longer than all the rest.
SESSION = (
    "SET lock_timeout = {lock}; SET statement_timeout = {statement}; "
    # Whoever waits for a lock must see what was committed meanwhile.
    "SET default_transaction_isolation = 'read committed'; "
    "SET plan_cache_mode = force_custom_plan; SET jit = off; SET join_collapse_limit = 1; "
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
)
LOCK = f"SELECT pg_advisory_xact_lock(hashtext('rag catalogue'), hashtext({SCHEMA}))"
LOCK_OF_WRITERS = f"{LOCK}; SET LOCAL lock_timeout = {LOCK_SECONDS * 1000}"
CHANNEL = "rag_catalogue"
"""Of all catalogues in the database: a notice says of which schema it is."""
PROGRAM_LIMITS = "54"
"""How the states begin that say that a statement is too large: too complex, too deep, too many columns or arguments."""
TOO_MANY_PARAMETERS = "number of parameters must be between"
OUTAGES = ("08", "25006", "25P03", "40", "53", "57P", "58", "XX")
"""How the states begin that say something of the server, and nothing of the request: connections, a standby, conflicts,
resources, shutdown, its system, its files. Most are OperationalErrors; so is what has no state because no server
answered."""
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; "
    f"SET LOCAL idle_in_transaction_session_timeout = {IDLE_WRITER_SECONDS * 1000}; "
)
COMMIT = f"SELECT pg_notify('{CHANNEL}', {SCHEMA}); COMMIT"


class PostgresDatabase:
    """Connections and transactions on one schema of a PostgreSQL database: `find_schema` says which.

    A connection serves one transaction at a time, and the next transaction takes the connection that was used last; a
    broken one is replaced when the next transaction begins. `url` is `postgresql+psycopg://…` or any address that libpq
    takes. Raises ConfigurationError when it is neither.
    """

    kind = "postgresql"
    errors: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error, SQLAlchemyError)

    def __init__(
        self,
        url: str,
        schema: str = "",
        *,
        statement_seconds: float = STATEMENT_SECONDS,
        value_bytes: int = VALUE_BYTES,
    ) -> None:
        try:
            given = conninfo_to_dict(url.replace("postgresql+psycopg://", "postgresql://", 1))
        except psycopg.Error:
            # The reason may quote the password.
            raise ConfigurationError("RAG_CATALOG_URL is no address of a PostgreSQL database") from None
        self._address: dict[str, Any] = {**CONNECTION, **given}
        self._wanted_schema = schema
        self._schema = ""
        self._statement_seconds = statement_seconds
        self._dialect = PostgresDialect(value_bytes)
        self._idle: list[PostgresTransaction] = []
        self._is_closed = False

    @property
    def servers(self) -> list[tuple[str, int]]:
        """The hosts and ports of the address. A socket file belongs to a server on this machine."""
        named = [str(self._address[name]) for name in ("host", "hostaddr") if self._address.get(name)]
        ports = str(self._address.get("port") or DEFAULT_PORT).split(",")
        return [
            (host if host and not host.startswith(("/", "@")) else "localhost", int(port or DEFAULT_PORT))
            for host in ",".join(named).split(",")
            for port in ports
        ]

    def connect(self) -> WatchedConnection:
        """Open a connection in autocommit mode, which the caller closes."""
        connection = WatchedConnection.connect(**self._address, autocommit=True)
        text.register(connection)
        settings = SESSION.format(lock=LOCK_SECONDS * 1000, statement=int(self._statement_seconds * 1e3))
        connection.execute(settings.encode(), prepare=False)
        if not self._schema:
            is_in_address = "search_path" in str(self._address.get("options"))
            self._schema = find_schema(connection, self._wanted_schema, is_in_address=is_in_address)
        enter_schema(connection, self._schema)
        return connection

    @contextmanager
    def read(self, limit: ReadLimit | None = None) -> Iterator[Transaction]:
        """Open a read transaction on one snapshot; its statements end with the limit."""
        with self._transaction(READ, "COMMIT", limited=True, limit=limit) as transaction:
            yield transaction

    @contextmanager
    def write(self, *, durable: bool = True, wait_seconds: float = WAIT_SECONDS) -> Iterator[Transaction]:
        """Open the only write transaction at a time, within `wait_seconds`.

        Raises OutcomeUnknownError when the connection broke during the commit.
        """
        # A timeout of 0 would mean no limit.
        wait = f"SET LOCAL lock_timeout = {max(1, int(wait_seconds * 1e3))}; "
        begin = WRITE + ("" if durable else "SET LOCAL synchronous_commit = off; ") + wait + LOCK_OF_WRITERS
        with self._transaction(begin, COMMIT, limited=False) as transaction:
            yield transaction

    def migrate(self, step: Callable[[Connection], None]) -> None:
        """Run a schema change in a write transaction."""

        def connect() -> psycopg.Connection:
            connection = self.connect()
            connection.autocommit = False
            return connection

        engine = create_engine("postgresql+psycopg://", creator=connect, poolclass=NullPool)
        with engine.connect() as connection:
            encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
            if encoding != "UTF8":
                raise ConfigurationError(f"The catalogue's database has the encoding {encoding}: it must have UTF8")
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
            connection.exec_driver_sql(LOCK)
            driver = connection.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            make_schema(driver)
            step(connection)
            connection.commit()

    @contextmanager
    def change_counter(self) -> Iterator[ChangeCounter]:
        """Open a counter of commits of anybody; a call costs no round trip.

        It never fails: while the database is away its number stays, and the first connection after that
        changes it.
        """
        changes = _Changes(self.connect)
        try:
            yield changes
        finally:
            changes.close()

    def translated(self, error: Exception) -> RagError:
        """Return one of `errors` as an error of the service."""
        cause = getattr(error, "orig", error)
        if isinstance(cause, psycopg.errors.QueryCanceled):
            return TooSlowError(TOO_SLOW)
        state = getattr(cause, "sqlstate", None)
        if str(state).startswith(PROGRAM_LIMITS) or TOO_MANY_PARAMETERS in str(cause):
            return TooComplexError(TOO_COMPLEX)
        log.error("catalogue failed", error=str(cause))
        if isinstance(cause, psycopg.errors.DiskFull):
            return DiskFloorError("The catalogue's disk is full: nothing was stored")
        if isinstance(cause, psycopg.errors.LockNotAvailable):
            return LockedError(LOCKED)
        if isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError) or str(state).startswith(OUTAGES):
            return UnavailableError("The catalogue is unavailable", code="catalog_unavailable")
        return RagError(DEFECT)

    def rewrite(self, *, wait_seconds: float) -> str | None:
        """Write the catalogue's tables anew, each while nobody else uses it, with their statistics, which quote values.

        Rows that a transaction of anybody in the database can still see are kept, so such transactions are waited for.
        """
        ends_at = time.monotonic() + wait_seconds
        with closing(self.connect()) as connection:
            connection.execute("SET statement_timeout = 0")
            connection.execute(f"SET lock_timeout = {max(1, int(wait_seconds * 1e3))}".encode())
            now = connection.execute(NOW).fetchone()
            while connection.execute(OLDER_SNAPSHOT, now).fetchone() is not None:
                if time.monotonic() > ends_at:
                    return "a transaction that began before is still under way"
                time.sleep(SNAPSHOT_POLL_SECONDS)
            for table in own_tables(rows_of(connection)):
                connection.execute(SQL("VACUUM (FULL, ANALYZE) {}").format(Identifier(table)))
        return None

    def close(self) -> None:
        """Close every connection for good. Transactions under way end first, in their threads."""
        self._is_closed = True
        self._close_idle()

    @contextmanager
    def _transaction(
        self, begin: str, commit: str, *, limited: bool, limit: ReadLimit | None = None
    ) -> Iterator[PostgresTransaction]:
        transaction = self._begun(begin, limited=limited, limit=limit)
        try:
            try:
                yield transaction
            except BaseException:
                transaction.roll_back()
                raise
            try:
                transaction.commit(commit)
            except BaseException as error:
                transaction.roll_back()
                if isinstance(error, psycopg.OperationalError) and transaction.connection.closed and commit == COMMIT:
                    log.error("the catalogue went away during a commit", error=str(error))
                    raise OutcomeUnknownError(
                        "The catalogue went away during the commit: whether this is stored is not known"
                    ) from error
                raise
        finally:
            self._give_back(transaction)

    def _begun(self, begin: str, *, limited: bool, limit: ReadLimit | None) -> PostgresTransaction:
        transaction = self._taken()
        try:
            transaction.begin(begin, limited=limited, limit=limit)
        except psycopg.OperationalError:
            transaction.roll_back()
            if not transaction.connection.closed:
                self._give_back(transaction)
                raise
            # The connection broke while it was idle. Nothing has been done on it yet, so a new one will do.
            transaction = self._new_transaction()
            transaction.begin(begin, limited=limited, limit=limit)
        except BaseException:
            transaction.roll_back()
            self._give_back(transaction)
            raise
        return transaction

    def _taken(self) -> PostgresTransaction:
        with suppress(IndexError):
            while True:
                transaction = self._idle.pop()
                if transaction.is_usable:
                    return transaction
                transaction.connection.close()
        return self._new_transaction()

    def _new_transaction(self) -> PostgresTransaction:
        if self._is_closed:
            raise UnavailableError(CLOSED, code="catalog_unavailable")
        return PostgresTransaction(self.connect(), self._dialect, self._statement_seconds)

    def _give_back(self, transaction: PostgresTransaction) -> None:
        if transaction.is_usable:
            self._idle.append(transaction)
        else:
            transaction.connection.close()
        if self._is_closed:
            self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):  # several threads may do this
            while True:
                self._idle.pop().connection.close()


class _Changes:
    """A counter of notifications, on a connection of its own."""

    def __init__(self, connect: Callable[[], psycopg.Connection]) -> None:
        self._connect = connect
        self._connection: psycopg.Connection | None = None
        self._again_at = float("-inf")
        self._number = 0
        self._schema = b""

    def __call__(self) -> int:
        if self._connection is None:
            self._listen()
        if self._connection is not None:
            # Only what the socket already holds is read: no round trip, and no waiting.
            try:
                self._connection.pgconn.consume_input()
                while notice := self._connection.pgconn.notifies():
                    self._number += notice.extra == self._schema
            except psycopg.OperationalError:
                self.close()
        return self._number

    @property
    def descriptor(self) -> int | None:
        return None if self._connection is None else self._connection.fileno()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _listen(self) -> None:
        now = time.monotonic()
        if now < self._again_at:
            return
        self._again_at = now + RECONNECT_SECONDS
        with suppress(psycopg.Error):
            connection = self._connect()
            connection.execute(f"LISTEN {CHANNEL}".encode())
            [[schema]] = rows_of(connection)(f"SELECT {SCHEMA}")
            self._schema = str(schema).encode()
            self._connection = connection
            self._number += 1
