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

from providers.api_keys import redacted
from registry.connections import Connections
from schemas.connections import UNHEALTHY, Connection, HealthReport
from schemas.errors import RagError

log = structlog.get_logger(__name__)


KEPT_SECONDS = 3_600.0
"""How long a report is remembered that nobody asks for."""


@dataclass(frozen=True, slots=True)
class _Look:
    """`before` is the report that was there when this look began."""

    began_at: float
    report: Future[HealthReport]
    before: HealthReport | None = None


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

    def last(self, connection: Connection) -> HealthReport | None:
        """What the last look found, without waiting and without a new one; None before the first has come back."""
        with self._lock:
            look = self._looks.get(repr(connection))
        if look is None:
            return None
        now = self._clock()
        if look.report.done() or now - look.began_at > self._limit_seconds:
            return self._report(connection, look, now)
        return look.before

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
            before = None if look is None else self._with_age(look.report.result(), look.began_at)
            look = _Look(now, Future(), before)
            self._looks = {
                k: v for k, v in self._looks.items() if not v.report.done() or now - v.began_at < KEPT_SECONDS
            }
            self._looks[key] = look
        threading.Thread(target=self._ask, args=(connection, look.report), name="health", daemon=True).start()
        return look

    def _ask(self, connection: Connection, answer: Future[HealthReport]) -> None:
        try:
            report = self._connections.open(connection.id, connection.kind).health()
            answer.set_result(self._without_values(connection, report))
        except RagError as error:
            answer.set_result(_unhealthy(connection, error.message, error.details.get("error_type", "invalid_config")))
        except Exception:
            log.exception("a health check failed in a way of its own", connection=connection.id)
            answer.set_result(_unhealthy(connection, "The check failed for a reason that is in the log", "unknown"))

    def _without_values(self, connection: Connection, report: HealthReport) -> HealthReport:
        """With placeholders as they were written, and nothing of what they stand for."""
        hidden = self._connections.hidden(connection)
        details = redacted(report.details, hidden)
        if details.get("url") is not None:
            details["url"] = self._connections.address(connection)
        message, error = redacted([report.message, report.error], hidden)
        return replace(report, message=message, error=error, details=details)

    def _report(self, connection: Connection, look: _Look, until: float) -> HealthReport:
        try:
            report = look.report.result(max(0.0, until - self._clock()))
        except NotInTimeError:
            return _unhealthy(connection, f"No answer within {self._limit_seconds:g} s", "timeout")
        return self._with_age(report, look.began_at)

    def _with_age(self, report: HealthReport, began_at: float) -> HealthReport:
        age_seconds = round(max(0.0, self._clock() - began_at), 1)
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
