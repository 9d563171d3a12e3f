"""Searches of the context tools: the fallback chain over the collections of all contracts, with metrics."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import structlog

from retrieval.asking import ask_within
from retrieval.context.breaker import CircuitBreaker, Pass
from schemas.contracts.context import ContextQuery
from schemas.contracts.search import SearchAnswer
from schemas.errors import (
    AccessError,
    ClientGoneError,
    CollectionNotFoundError,
    InvalidInputError,
    RagError,
)

log = structlog.get_logger(__name__)

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
        errors: list[RagError] = []
        for level, ask, seconds in self._levels:
            outcome = ask_within(seconds, self._pools[level].submit, partial(ask, asked))()
            if outcome.error is None:
                if level == VECTOR or entered.is_probe:
                    self._breaker.succeeded()
                found = outcome.get()
                return Outcome(level, found, found.receipt.indexed)
            if isinstance(outcome.error, CollectionNotFoundError):
                self._told_nothing(entered)
                raise outcome.error
            log.warning("a level of the search failed", level=level, reason=outcome.error.message)
            errors.append(outcome.error)
        if any(isinstance(error, FAULTS_OF_CALLERS) for error in errors):
            self._told_nothing(entered)
        else:
            self._breaker.failed()
        return Outcome(EMPTY, error=errors[-1].message)

    def _told_nothing(self, entered: Pass) -> None:
        if entered.is_probe:
            self._breaker.give_back(entered)


log = structlog.get_logger(__name__)
