"""Health of the connections, all asked at once with a time limit each (contract *storage*, "Health Check with
Details")."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotInTimeError
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from providers.outbound import deadlines
from registry.connection_threads import ConnectionThreads
from registry.connections import Connections
from registry.stored_looks import StoredLooks
from schemas.access.callers import current_view
from schemas.access.turns import waiting_for
from schemas.connections import UNHEALTHY, Connection, HealthReport, Look
from schemas.errors import RagError
from schemas.storage import read_limits

log = structlog.get_logger(__name__)


KEPT_SECONDS = 3_600.0
"""Seconds after which a report that nobody asks for is forgotten."""
MAX_AT_A_TIME = 16
"""Connections that one worker asks at the same time."""


@dataclass(frozen=True, slots=True)
class _Look:
    """A running or finished check; `before` is the report that existed when it began."""

    began_at: float
    report: Future[HealthReport]
    before: HealthReport | None = None


class HealthWatch:
    """Checks the health of connections, each at most once at a time and once in `fresh_seconds`.

    In between, the last report is returned with its age (`details.age_seconds`). The same happens when so many others
    hang that a connection cannot be asked in time. Nothing is raised. A service that hangs occupies one thread, and
    only until the limit. Connections that were healthy are asked before those that were not.
    """

    def __init__(
        self,
        connections: Connections,
        looks: StoredLooks,
        *,
        limit_seconds: float,
        fresh_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections = connections
        self._stored_looks = looks
        self._limit_seconds = limit_seconds
        self._fresh_seconds = fresh_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._looks: dict[str, _Look] = {}
        self._unwell: set[str] = set()
        self._threads = ConnectionThreads("health", each=1, most=MAX_AT_A_TIME)

    @property
    def threads(self) -> int:
        """The number of threads now."""
        return self._threads.threads

    def close(self) -> None:
        self._threads.close()

    def of(self, connection: Connection) -> HealthReport:
        return self.of_all([connection])[0]

    def look(self, connection: Connection, *, recent_seconds: float) -> HealthReport:
        """Check as `of` does, but do not ask a service that has answered within `recent_seconds` and not failed since.

        Any answer to this process counts. Asking costs what the vendor charges, and the result is known.
        """
        return self._report(connection, self._look(connection, recent_seconds), self._clock() + self._limit_seconds)

    def last(self, connection: Connection) -> HealthReport | None:
        """Return the last report without waiting or asking; None before the first check has ended."""
        with self._lock:
            look = self._looks.get(_key(connection))
        if look is None:
            return None
        now = self._clock()
        if look.report.done() or now - look.began_at > self._limit_seconds:
            return self._report(connection, look, now)
        return look.before

    def of_all(self, connections: Sequence[Connection]) -> list[HealthReport]:
        """Return one report for each connection, all within one time limit. Raises BusyError when too many requests
        wait for the same ones."""
        with waiting_for(lambda: {each.id for each in connections}):
            return self._of_all(connections)

    def _of_all(self, connections: Sequence[Connection]) -> list[HealthReport]:
        looks = {}
        for each in sorted(connections, key=lambda connection: connection.id in self._unwell):
            looks[each.id] = self._look(each)
        until = self._clock() + self._limit_seconds
        reports = [self._report(each, looks[each.id], until) for each in connections]
        unwell = {each.id for each, report in zip(connections, reports, strict=True) if report.status == UNHEALTHY}
        self._unwell = self._unwell - {each.id for each in connections} | unwell
        return reports

    def _look(self, connection: Connection, recent_seconds: float = 0.0) -> _Look:
        key = _key(connection)
        with self._lock:
            look = self._looks.get(key)
            now = self._clock()
            if look is not None and (not look.report.done() or self._age_seconds(look) < self._fresh_seconds):
                return look
            before = None if look is None or look.report.cancelled() else self._with_age(look)
            look = _Look(now, self._threads.submit(key, lambda: self._ask(connection, recent_seconds)), before)
            self._looks = {
                k: v for k, v in self._looks.items() if not v.report.done() or now - v.began_at < KEPT_SECONDS
            }
            self._looks[key] = look
            return look

    def history(self, connections: Sequence[Connection]) -> dict[str, list[Look]]:
        """Return the last looks at each connection by its id, oldest first, whichever worker looked."""
        return self._stored_looks.of(connections)

    def _ask(self, connection: Connection, recent_seconds: float) -> HealthReport:
        with read_limits.limited(None):  # others than who asked first wait for it, too
            report = self._asked(connection, recent_seconds)
            self._stored_looks.note(connection, report)
        return report

    def _asked(self, connection: Connection, recent_seconds: float) -> HealthReport:
        try:
            with deadlines.within(self._limit_seconds):
                provider = self._connections.open(connection.id, connection.kind)
                report = provider.health(recent_seconds=recent_seconds)
            return self._as_written(connection, report)
        except RagError as error:
            return _unhealthy(connection, error.message, error.details.get("error_type", "invalid_config"))
        except Exception:
            log.exception("a health check failed in a way of its own", connection=connection.id)
            return _unhealthy(connection, "The check failed for a reason that is in the log", "unknown")

    def _as_written(self, connection: Connection, report: HealthReport) -> HealthReport:
        """Return the report with the placeholders of its address as they were written."""
        if report.details.get("url") is None:
            return report
        return replace(report, details={**report.details, "url": self._connections.address(connection)})

    def _report(self, connection: Connection, look: _Look, until: float) -> HealthReport:
        try:
            look.report.result(max(0.0, until - self._clock()))
        except NotInTimeError:
            if look.report.running():
                return _unhealthy(connection, f"No answer within {self._limit_seconds:g} s", "timeout")
            if look.before is not None:  # not asked only because others hang
                return look.before
            sentence = f"Not asked within {self._limit_seconds:g} s: too many connections do not answer; ask again"
            return _unhealthy(connection, sentence, "timeout")
        except CancelledError:
            return _unhealthy(connection, "The service is closing", "unknown")
        return self._with_age(look)

    def _with_age(self, look: _Look) -> HealthReport:
        report = look.report.result()
        return replace(report, details={**report.details, "age_seconds": round(self._age_seconds(look), 1)})

    def _age_seconds(self, look: _Look) -> float:
        """Return the age of what a check found, infinite when it was cancelled."""
        if look.report.cancelled():
            return math.inf
        told = look.report.result().details.get("age_seconds", 0.0)
        return max(0.0, self._clock() - look.began_at) + (told if isinstance(told, int | float) else 0.0)


def _key(connection: Connection) -> str:
    """Return what tells reports apart: what a connection is made from and, where it leads to documents, what the caller
    may see of them."""
    return repr(connection) + (current_view() if connection.kind == "rag" else "")


def _unhealthy(connection: Connection, sentence: str, error_type: str) -> HealthReport:
    return HealthReport(
        status=UNHEALTHY,
        provider=connection.provider,
        timestamp=datetime.now(UTC).isoformat(timespec="milliseconds"),
        message=sentence,
        error=sentence,
        details={"error_type": error_type},
    )
