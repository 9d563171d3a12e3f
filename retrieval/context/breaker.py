"""The circuit breaker of a worker (contract *context*, "Fallback Chain"), in its memory.

Packaged breakers either hold a lock during the call or let all callers through when half open.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

log = structlog.get_logger(__name__)

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half_open"


@dataclass(frozen=True, slots=True)
class Pass:
    """Permission to try. A probe is the one try that a half-open breaker allows at a time."""

    is_probe: bool


class CircuitBreaker:
    """A circuit breaker, usable by several threads.

    It is closed until `threshold` failures come without a success between them. Then it is open until more than
    `timeout_seconds` have passed since the last failure, and half open afterwards: one caller at a time may try. A try
    that has not ended after `probe_seconds` is given up. A success closes the breaker and forgets the failures.
    `clock` is in seconds.
    """

    def __init__(
        self,
        *,
        threshold: int,
        timeout_seconds: float,
        probe_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._threshold = threshold
        self._timeout_seconds = timeout_seconds
        self._probe_seconds = probe_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._last_failure = self._probe_until = 0.0
        self._probe: Pass | None = None

    def state(self) -> str:
        """Return `closed`, `open` or `half_open`."""
        if self._failures < self._threshold:
            return CLOSED
        return HALF_OPEN if self._clock() - self._last_failure > self._timeout_seconds else OPEN

    def is_closed(self) -> bool:
        return self.state() == CLOSED

    def enter(self) -> Pass | None:
        """Return permission to try, None when the breaker is open. Its holder must call `succeeded` or `failed`, or
        `give_back` with a probe that told neither."""
        with self._lock:
            state, now = self.state(), self._clock()
            if state == CLOSED:
                return Pass(is_probe=False)
            if state == OPEN or (self._probe is not None and now < self._probe_until):
                return None
            self._probe, self._probe_until = Pass(is_probe=True), now + self._probe_seconds
            return self._probe

    def succeeded(self) -> None:
        with self._lock:
            self._failures, self._probe = 0, None

    def failed(self) -> None:
        with self._lock:
            self._failures += 1
            self._last_failure, self._probe = self._clock(), None
            failures = self._failures
        if failures == self._threshold:
            log.warning("circuit breaker opens", failures=failures)

    def give_back(self, probe: Pass) -> None:
        """Let another caller probe at once, unless one does already, because this probe took too long."""
        with self._lock:
            if self._probe is probe:
                self._probe = None
