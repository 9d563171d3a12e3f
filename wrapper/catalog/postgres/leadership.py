"""The lead over a shared catalogue's outbox, and the claim on an engine: advisory locks of one database session.

The session ends when its process ends or loses its connection to the database; its locks are free then. The database
tells nobody: a leader that was cut off learns it when it asks, which it does every second and after each write to the
engine (`confirm`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from random import SystemRandom

import psycopg
import structlog

from schemas.errors import ConfigurationError
from wrapper.catalog.postgres.place import SCHEMA, check_schema

log = structlog.get_logger(__name__)

CHECK_SECONDS = 1.0
FOLLOW_SECONDS = 0.25
AGAIN_SECONDS = 1.0
SHARED_ENGINE = 0
LEAD = f"SELECT pg_try_advisory_lock(hashtext('rag leader'), hashtext({SCHEMA}))"
ENGINES = f"hashtext('rag engine ' || {SCHEMA})"
CLAIM = f"SELECT pg_try_advisory_lock_shared({ENGINES}, %s)"
OTHER_ENGINES = (
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    f"AND classid = CAST({ENGINES} AS bigint) & 4294967295 AND objid <> %s LIMIT 1"
)
ANOTHER_ENGINE = (
    "Another service with an engine of its own uses this catalogue: services that share a catalogue must share a "
    "Chroma server too (RAG_CHROMA_URL)"
)


def engine_number(data_dir_id: str | None) -> int:
    """Return the lock number of the engine in a data directory, or of the Chroma server that services share."""
    if data_dir_id is None:
        return SHARED_ENGINE
    return 1 + int.from_bytes(hashlib.sha256(data_dir_id.encode()).digest()[:4]) % (2**31 - 1)


def check_start(connect: Callable[[], psycopg.Connection], engine: int, wanted_schema: str) -> None:
    """Raise ConfigurationError when a running service feeds another engine from this catalogue, or when a catalogue is
    in another schema than the wanted one (`check_schema`).

    Raises it also when the catalogue's database does not answer.
    """
    try:
        connection = connect()
    except psycopg.OperationalError as error:
        raise ConfigurationError(
            f"The catalogue's database does not answer: {error}", field="RAG_CATALOG_URL"
        ) from None
    try:
        if connection.execute(OTHER_ENGINES, (engine,)).fetchone():
            raise ConfigurationError(ANOTHER_ENGINE, field="RAG_CHROMA_URL")
        check_schema(connection, wanted_schema)
    finally:
        connection.close()


class AdvisoryLeadership:
    """The lead among all processes of all services on a catalogue, held on a connection of its own.

    While it has a connection, it also claims the `engine` (see `engine_number`), and it leads only when nobody has
    claimed another one.
    """

    def __init__(
        self, connect: Callable[[], psycopg.Connection], engine: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connect = connect
        self._engine = engine
        self._clock = clock
        self._connection: psycopg.Connection | None = None
        self._leads = False
        self._checked_at = self._again_at = float("-inf")

    @property
    def held(self) -> bool:
        """Return whether this process led when it last asked, at most `CHECK_SECONDS` ago."""
        if self._leads and self._clock() - self._checked_at >= CHECK_SECONDS:
            return self.confirm()
        return self._leads

    def confirm(self) -> bool:
        """Return whether this process has led without a break until now."""
        if not self._leads or self._connection is None:
            return False
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error as error:
            log.warning("the lead is lost with the connection to the catalogue", reason=str(error))
            self.release()
            return False
        self._checked_at = self._clock()
        return True

    def acquire(self) -> bool:
        if self.held:
            return True
        if self._clock() < self._again_at:
            return False
        try:
            self._leads = self._may_lead() and self._is_locked(LEAD)
        except psycopg.Error:
            self.release()
        self._again_at = self._clock() + (0.0 if self._leads else self._pause())
        self._checked_at = self._clock()
        return self._leads

    def release(self) -> None:
        self._leads = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _may_lead(self) -> bool:
        if self._connection is None:
            self._connection = self._connect()
            self._is_locked(CLAIM, self._engine)
        if self._connection.execute(OTHER_ENGINES, (self._engine,)).fetchone():
            log.error(ANOTHER_ENGINE)
            self.release()
            return False
        return True

    def _is_locked(self, statement: str, *parameters: int) -> bool:
        assert self._connection is not None
        found = self._connection.execute(statement, parameters or None).fetchone()
        return found is not None and bool(found[0])

    def _pause(self) -> float:
        # Two services that refuse each other must not keep asking at the same moments.
        return FOLLOW_SECONDS if self._connection is not None else AGAIN_SECONDS * SystemRandom().uniform(1, 2)
