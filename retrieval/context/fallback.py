"""The fallback chain of the contract *context*: search by vector, else by words, else find nothing.

While the breaker is open, nothing is found at once.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTimeError
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from retrieval.context.breaker import CircuitBreaker, Pass
from schemas.contracts.context import ContextQuery
from schemas.contracts.search import SearchAnswer
from schemas.errors import (
    AccessError,
    ClientGoneError,
    CollectionNotFoundError,
    InvalidInputError,
    RagError,
    UnavailableError,
)
from schemas.storage.read_limits import awaited

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
        self._levels = (
            _Level("by vector", by_vector, vector_seconds),
            _Level("by text", by_text, text_seconds),
        )
        self._count: _Level[None, int] = _Level("counting", lambda _: total_indexed(), COUNT_SECONDS)
        self._breaker = breaker

    def close(self) -> None:
        """Wait until no search is under way, so that the collections can be closed."""
        for level in (*self._levels, self._count):
            level.close()

    def search(self, asked: ContextQuery) -> Outcome:
        entered = self._breaker.enter()
        if entered is None:
            return Outcome(BREAKER_OPEN, total_indexed=self._total_indexed())
        by_vector, by_text = self._levels
        try:
            found = by_vector.ask(asked)
        except CollectionNotFoundError:
            self._told_nothing(entered)
            raise
        except RagError as error:
            log.warning("no search by vector, so one by words", reason=error.message)
            is_callers = isinstance(error, FAULTS_OF_CALLERS)
        else:
            self._breaker.succeeded()
            return Outcome(VECTOR, found, found.receipt.indexed)
        try:
            found = by_text.ask(asked)
        except CollectionNotFoundError:
            self._told_nothing(entered)
            raise
        except RagError as error:
            log.warning("no search by words either", reason=error.message)
            if is_callers or isinstance(error, FAULTS_OF_CALLERS):
                self._told_nothing(entered)
            else:
                self._breaker.failed()
            return Outcome(EMPTY, error=error.message)
        if entered.is_probe:
            self._breaker.succeeded()
        return Outcome(TEXT, found, found.receipt.indexed)

    def _told_nothing(self, entered: Pass) -> None:
        if entered.is_probe:
            self._breaker.give_back(entered)

    def _total_indexed(self) -> int:
        try:
            return self._count.ask(None)
        except RagError:
            return 0


AskedT = TypeVar("AskedT")
T = TypeVar("T")


class _Level(Generic[AskedT, T]):
    """A way to search in threads of its own, so that one that hangs blocks no other."""

    def __init__(self, name: str, search: Callable[[AskedT], T], limit_seconds: float) -> None:
        self._name = name
        self._search = search
        self._limit_seconds = limit_seconds
        self._pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix=f"search {name}")

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def ask(self, asked: AskedT) -> T:
        """Return what the search finds. Raises RagError, whatever happens."""
        try:
            answer: Future[T] = self._pool.submit(awaited(self._search), asked)
        except RuntimeError as error:
            raise UnavailableError("The service stops") from error
        try:
            return answer.result(self._limit_seconds)
        except NotInTimeError as error:
            answer.cancel()
            raise UnavailableError(f"No answer within {self._limit_seconds:g} s") from error
        except RagError:
            raise
        except Exception as error:
            log.exception("a search failed in a way of its own", level=self._name)
            raise UnavailableError("The search failed for a reason that is in the log") from error
