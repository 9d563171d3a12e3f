"""The circuit breaker of the whole service (contract *context*, "Fallback Chain"). Its state is a row in the database.

Packaged breakers either hold a lock during the call or let all callers through when half open.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTimeError
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import structlog

from schemas.errors import RagError
from schemas.shared_database import Database, Transaction

log = structlog.get_logger(__name__)

SEEN_SECONDS = 0.2
"""The seconds for which a worker trusts what it read. It learns of events at other workers at most this much later."""
WAIT_SECONDS = 0.15
"""The seconds that the database has to answer before a worker goes by its own knowledge."""

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half_open"

STEPS = (
    (
        """CREATE TABLE circuit_breakers (
            name VARCHAR(64) PRIMARY KEY, failures BIGINT NOT NULL, last_failure_ms BIGINT NOT NULL,
            probe_until_ms BIGINT NOT NULL
        )""",
    ),
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Record:
    """The breaker's state: the `failures` since the last success. Until `probe_until_ms` one caller probes whether
    things work again."""

    failures: int = 0
    last_failure_ms: int = 0
    probe_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class Pass:
    """Permission to try. A probe is the one try that a half-open breaker allows, until `probe_until_ms`."""

    is_probe: bool
    probe_until_ms: int = 0


class CircuitBreaker:
    """A circuit breaker, usable by several threads, that never raises.

    It is closed until `threshold` failures come without a success between them. Then it is open until more than
    `timeout_seconds` have passed since the last failure, and half open afterwards: one caller at a time may try. A try
    that has not ended after `probe_seconds` is given up, because its process may have died. A success closes the
    breaker and forgets the failures.

    Without the database each worker goes by what it saw itself, and writes its failures when the database answers
    again; it has `wait_seconds` to. `clock` is in seconds since the epoch, which all workers share.
    """

    def __init__(
        self,
        database: Database,
        *,
        threshold: int,
        timeout_seconds: float,
        probe_seconds: float,
        wait_seconds: float = WAIT_SECONDS,
        clock: Callable[[], float] = time.time,
        name: str = "context",
    ) -> None:
        self._database = database
        self._threshold = threshold
        self._timeout_ms = round(timeout_seconds * 1e3)
        self._probe_ms = round(probe_seconds * 1e3)
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._name = name
        self._lock = threading.Lock()
        self._known = _Record()
        self._read_at_ms: int | None = None
        self._unwritten = _Record()
        # One thread keeps writes in their order, and a database that hangs blocks no more than this thread.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="breaker")
        self._late: Future[Any] | None = None
        database.open_part("circuit breakers", STEPS)

    def close(self) -> None:
        """Wait until nothing is asked of the database any more, so that it can be closed."""
        self._worker.shutdown(cancel_futures=True)

    def state(self) -> str:
        """Return `closed`, `open` or `half_open`."""
        self._read()
        return self._current()

    def is_closed(self) -> bool:
        return self.state() == CLOSED

    def enter(self) -> Pass | None:
        """Return permission to try, None when the breaker is open. Its holder must call `succeeded` or `failed`, or
        `give_back` with a probe that told neither."""
        if self.state() == HALF_OPEN and (probe_until_ms := self._probe()) is not None:
            return Pass(is_probe=True, probe_until_ms=probe_until_ms)
        return Pass(is_probe=False) if self._current() == CLOSED else None

    def succeeded(self) -> None:
        with self._lock:
            if self._seen().failures == 0:
                return
            self._known, self._unwritten = _Record(), _Record()
        self._ask(self._reset)

    def failed(self) -> None:
        now_ms = self._now_ms()
        with self._lock:
            self._unwritten = _Record(self._unwritten.failures + 1, now_ms)
            self._known = replace(self._known, probe_until_ms=0)
            failures = self._seen().failures
        if failures == self._threshold:
            log.warning("circuit breaker opens", failures=failures)
        self._ask(self._add_failures)

    def give_back(self, probe: Pass) -> None:
        """Let another caller probe at once, unless one does already, because this probe took too long."""
        with self._lock:
            self._known = _freed(self._known, probe)
        self._ask(lambda: self._free(probe))

    def _current(self) -> str:
        with self._lock:
            return self._state(self._seen())

    def _state(self, seen: _Record) -> str:
        if seen.failures < self._threshold:
            return CLOSED
        return HALF_OPEN if self._now_ms() - seen.last_failure_ms > self._timeout_ms else OPEN

    def _seen(self) -> _Record:
        return _added(self._known, self._unwritten)

    def _probe(self) -> int | None:
        """Take the probe and return until when, None when it is somebody else's."""
        now_ms = self._now_ms()
        until_ms = now_ms + self._probe_ms
        with self._lock:
            if now_ms < self._known.probe_until_ms:
                return None
            self._known = replace(self._known, probe_until_ms=until_ms)
        return None if self._ask(lambda: self._take_probe(now_ms, until_ms)) is False else until_ms

    def _read(self) -> None:
        now_ms = self._now_ms()
        with self._lock:
            if self._read_at_ms is not None and 0 <= now_ms - self._read_at_ms < SEEN_SECONDS * 1e3:
                return
            self._read_at_ms = now_ms
            owes = self._unwritten.failures > 0
        self._ask(self._add_failures if owes else self._load)

    def _load(self) -> None:
        with self._database.read() as transaction:
            found = self._find(transaction)
        with self._lock:
            self._known = found

    def _take_probe(self, now_ms: int, until_ms: int) -> bool:
        def operation(transaction: Transaction) -> tuple[bool, _Record]:
            found = self._find(transaction)
            if now_ms < found.probe_until_ms or self._state(_added(found, self._unwritten)) != HALF_OPEN:
                return False, found
            taken = replace(found, probe_until_ms=until_ms)
            self._store(transaction, taken)
            return True, taken

        taken, record = self._database.freely.commit_quickly(operation)
        with self._lock:
            self._known = record
        return taken

    def _free(self, probe: Pass) -> None:
        def operation(transaction: Transaction) -> None:
            found = self._find(transaction)
            freed = _freed(found, probe)
            if freed != found:
                self._store(transaction, freed)

        self._database.freely.commit_quickly(operation)

    def _add_failures(self) -> None:
        with self._lock:
            added = self._unwritten

        def operation(transaction: Transaction) -> _Record:
            found = _added(replace(self._find(transaction), probe_until_ms=0), added)
            self._store(transaction, found)
            return found

        if added.failures == 0:
            return
        written = self._database.freely.commit_quickly(operation)
        with self._lock:
            self._known = written
            since = self._unwritten.failures - added.failures
            self._unwritten = replace(self._unwritten, failures=since) if since > 0 else _Record()

    def _reset(self) -> None:
        self._database.freely.commit_quickly(lambda transaction: self._store(transaction, _Record()))
        with self._lock:
            self._known = _Record()

    def _ask(self, operation: Callable[[], T]) -> T | None:
        """Return what the operation returns, None when the database did not do it in time or at all."""
        late = self._late
        if late is not None and not late.done():
            return None
        try:
            asked = self._worker.submit(operation)
            return asked.result(self._wait_seconds)
        except NotInTimeError:
            self._late = asked
            reason = f"No answer within {self._wait_seconds:g} s"
        except RagError as error:
            reason = error.message
        except Exception as error:  # not even a stop of the service is a reason to fail a search
            reason = repr(error)
        log.warning("the state of the circuit breaker is not known", reason=reason)
        return None

    def _find(self, transaction: Transaction) -> _Record:
        row = transaction.row(
            "SELECT failures, last_failure_ms, probe_until_ms FROM circuit_breakers WHERE name = ?", (self._name,)
        )
        return _Record() if row is None else _Record(*(int(value) for value in row))

    def _store(self, transaction: Transaction, record: _Record) -> None:
        transaction.run("DELETE FROM circuit_breakers WHERE name = ?", (self._name,))
        values = (self._name, record.failures, record.last_failure_ms, record.probe_until_ms)
        transaction.run("INSERT INTO circuit_breakers VALUES (?, ?, ?, ?)", values)

    def _now_ms(self) -> int:
        return round(self._clock() * 1e3)


def _freed(record: _Record, probe: Pass) -> _Record:
    """Return the record without this probe. One that somebody else has taken since stays."""
    return replace(record, probe_until_ms=0) if record.probe_until_ms == probe.probe_until_ms else record


def _added(record: _Record, more: _Record) -> _Record:
    last_ms = max(record.last_failure_ms, more.last_failure_ms)
    return replace(record, failures=record.failures + more.failures, last_failure_ms=last_ms)
