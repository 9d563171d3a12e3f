"""The fallback chain of the contract *context*: search by vector, else by words, else find nothing. While the circuit
breaker of the worker, which is in its memory, is open, nothing is found at once.

Packaged breakers either hold a lock during the call or let all callers through when half open.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import structlog

from retrieval.asking import ask_within
from schemas.contracts.context import ContextQuery
from schemas.contracts.search import SearchAnswer
from schemas.errors import AccessError, ClientGoneError, CollectionNotFoundError, InvalidInputError, RagError

log = structlog.get_logger(__name__)

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half_open"


class CircuitBreaker:
    """A circuit breaker, usable by several threads.

    It is closed until `threshold` failures come without a success between them. Then it is open until more than
    `timeout_seconds` have passed since the last failure, and half open afterwards: one caller at a time may try, the
    probe. A success closes the breaker and forgets the failures. `clock` is in seconds.
    """

    def __init__(self, *, threshold: int, timeout_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._threshold = threshold
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._last_failure = 0.0
        self._is_probed = False

    def state(self) -> str:
        """Return `closed`, `open` or `half_open`."""
        if self._failures < self._threshold:
            return CLOSED
        return HALF_OPEN if self._clock() - self._last_failure > self._timeout_seconds else OPEN

    def is_closed(self) -> bool:
        return self.state() == CLOSED

    def enter(self) -> str | None:
        """Return the state in which the caller may try, half open for a probe, None when they may not. Who may must
        call `succeeded` or `failed`, or `give_back` with a probe that told neither."""
        with self._lock:
            state = self.state()
            if state == OPEN or (state == HALF_OPEN and self._is_probed):
                return None
            self._is_probed = state == HALF_OPEN
            return state

    def succeeded(self) -> None:
        with self._lock:
            self._failures, self._is_probed = 0, False

    def failed(self) -> None:
        with self._lock:
            self._failures += 1
            self._last_failure, self._is_probed = self._clock(), False
            failures = self._failures
        if failures == self._threshold:
            log.warning("circuit breaker opens", failures=failures)

    def give_back(self) -> None:
        """Let another caller probe at once."""
        with self._lock:
            self._is_probed = False


VECTOR, TEXT, EMPTY, BREAKER_OPEN = 1, 2, 3, 4
PARALLEL = 16
"""The number of searches of one level that one worker makes at a time."""
COUNT_SECONDS = 0.15
"""The seconds that counting the chunks may take where the count is the whole answer."""

FAULTS_OF_CALLERS = (AccessError, ClientGoneError, InvalidInputError)
"""Errors that say nothing about the levels: other callers may be answered."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The chain's answer: the level that gave it, what that found, how many chunks there are in all, and at level 3 why
    nothing was found."""

    level: int
    answer: SearchAnswer | None = None
    total_indexed: int = 0
    error: str | None = None

    @property
    def fallback(self) -> bool:
        return self.level != VECTOR


class FallbackChain:
    """The chain of levels, usable by several threads. It raises nothing but CollectionNotFoundError.

    It never hangs: a level that takes longer than its seconds has failed. An answer without results is an answer. A
    failure counts when both levels failed, and neither for what the caller asks or may have; an answer of level 1
    closes the breaker, and so does one of level 2 when it was the probe. A probe that ended by a fault of its caller
    told nothing, and leaves the next one to others.
    """

    def __init__(
        self,
        by_vector: Callable[[ContextQuery], SearchAnswer],
        by_text: Callable[[ContextQuery], SearchAnswer],
        total_indexed: Callable[[], int],
        breaker: CircuitBreaker,
        *,
        vector_seconds: float,
        text_seconds: float,
    ) -> None:
        self._levels = ((VECTOR, by_vector, vector_seconds), (TEXT, by_text, text_seconds))
        self._total_indexed = total_indexed
        self._breaker = breaker
        # Each has threads of its own, so that one that hangs blocks no other.
        self._pools = {
            level: ThreadPoolExecutor(PARALLEL, thread_name_prefix=f"context level {level}")
            for level in (VECTOR, TEXT, BREAKER_OPEN)
        }

    def close(self) -> None:
        """Wait until no search is under way, so that the collections can be closed."""
        for pool in self._pools.values():
            pool.shutdown(cancel_futures=True)

    def search(self, asked: ContextQuery) -> Outcome:
        entered = self._breaker.enter()
        if entered is None:
            counted = ask_within(COUNT_SECONDS, self._pools[BREAKER_OPEN].submit, self._total_indexed)()
            return Outcome(BREAKER_OPEN, total_indexed=counted.value or 0)
        is_probe, told_nothing = entered == HALF_OPEN, True
        try:
            errors: list[RagError] = []
            for level, ask, seconds in self._levels:
                outcome = ask_within(seconds, self._pools[level].submit, partial(ask, asked))()
                if outcome.error is None:
                    if level == VECTOR or is_probe:
                        told_nothing = False
                        self._breaker.succeeded()
                    found = outcome.get()
                    return Outcome(level, found, found.receipt.indexed)
                if isinstance(outcome.error, CollectionNotFoundError):
                    raise outcome.error
                log.warning("a level of the search failed", level=level, reason=outcome.error.message)
                errors.append(outcome.error)
            if not any(isinstance(error, FAULTS_OF_CALLERS) for error in errors):
                told_nothing = False
                self._breaker.failed()
            return Outcome(EMPTY, error=errors[-1].message)
        finally:
            if is_probe and told_nothing:
                self._breaker.give_back()
