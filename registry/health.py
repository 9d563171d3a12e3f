"""How every connection is, asked of all at once, with a time limit for each (seed 003, "Health Check with Details")."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTimeError
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from providers import deadlines
from registry.connections import Connections
from schemas.connections import UNHEALTHY, Connection, HealthReport
from schemas.errors import RagError

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Look:
    began_at: float
    report: Future[HealthReport]


class HealthWatch:
    """Asks one connection at most once at a time and once in `fresh_seconds`: an answer in between is the last one,
    and says its age (`details.age_seconds`). Never raises; a service that hangs keeps one thread, not one a request."""

    def __init__(
        self,
        connections: Connections,
        *,
        limit_seconds: float,
        fresh_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections = connections
        self._limit_seconds = limit_seconds
        self._fresh_seconds = fresh_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._looks: dict[str, _Look] = {}

    def of(self, connection: Connection) -> HealthReport:
        return self.of_all([connection])[0]

    def of_all(self, connections: Sequence[Connection]) -> list[HealthReport]:
        """One report for each, all within one time limit."""
        looks = [self._look(connection) for connection in connections]
        until = self._clock() + self._limit_seconds
        return [self._report(*each, until) for each in zip(connections, looks, strict=True)]

    def _look(self, connection: Connection) -> _Look:
        key = repr(connection)
        with self._lock:
            look = self._looks.get(key)
            now = self._clock()
            if look is not None and (not look.report.done() or now - look.began_at < self._fresh_seconds):
                return look
            look = _Look(now, Future())
            self._looks = {k: v for k, v in self._looks.items() if not v.report.done() or now - v.began_at < 60.0}
            self._looks[key] = look
        threading.Thread(target=self._ask, args=(connection, look.report), name="health", daemon=True).start()
        return look

    def _ask(self, connection: Connection, answer: Future[HealthReport]) -> None:
        try:
            with deadlines.within(self._limit_seconds):
                report = self._connections.open(connection.id, connection.kind).health()
            answer.set_result(self._as_written(connection, report))
        except RagError as error:
            answer.set_result(_unhealthy(connection, error.message, error.details.get("error_type", "invalid_config")))
        except Exception:
            log.exception("a health check failed in a way of its own", connection=connection.id)
            answer.set_result(_unhealthy(connection, "The check failed for a reason that is in the log", "unknown"))

    def _as_written(self, connection: Connection, report: HealthReport) -> HealthReport:
        """With the placeholders of its address as they were written."""
        if report.details.get("url") is None:
            return report
        return replace(report, details={**report.details, "url": self._connections.address(connection)})

    def _report(self, connection: Connection, look: _Look, until: float) -> HealthReport:
        try:
            report = look.report.result(max(0.0, until - self._clock()))
        except NotInTimeError:
            return _unhealthy(connection, f"No answer within {self._limit_seconds:g} s", "timeout")
        age_seconds = round(max(0.0, self._clock() - look.began_at), 1)
        return replace(report, details={**report.details, "age_seconds": age_seconds})


def _unhealthy(connection: Connection, sentence: str, error_type: str) -> HealthReport:
    return HealthReport(
        status=UNHEALTHY,
        provider=connection.provider,
        timestamp=datetime.now(UTC).isoformat(timespec="milliseconds"),
        message=sentence,
        error=sentence,
        details={"error_type": error_type},
    )
