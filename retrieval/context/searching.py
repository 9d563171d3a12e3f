"""Searches of the context tools: the fallback chain over the collections of all contracts, with metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import structlog

from retrieval.asking import ask_within
from retrieval.clock import milliseconds_since
from retrieval.context.breaker import CircuitBreaker, Pass
from retrieval.context.items import to_item, to_where
from retrieval.context.search_metrics import SearchMetrics, SearchRow
from retrieval.search.engine import SEMANTIC, SearchEngine, search_by_meaning
from retrieval.search.oracles.lexical import LexicalOracle
from schemas.access.callers import current
from schemas.contracts.context import ContextAnswer, ContextQuery
from schemas.contracts.search import SearchAnswer, SearchRequest, check_query
from schemas.errors import (
    AccessError,
    ClientGoneError,
    CollectionNotFoundError,
    InvalidInputError,
    RagError,
    UnavailableError,
)
from schemas.settings import RetrievalSettings

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

UNKNOWN_AGENT = "unknown"
SHARE_FOR_ASKING = 0.9
"""The share of a level's seconds that its search may take, so that its answer comes in time."""


class ContextSearch:
    """Answers searches, usable by several threads."""

    def __init__(
        self,
        engine: SearchEngine,
        total_indexed: Callable[[], int],
        breaker: CircuitBreaker,
        metrics: SearchMetrics,
        settings: RetrievalSettings,
    ) -> None:
        self._engine = engine
        self._metrics = metrics
        self._settings = settings
        self._chain = FallbackChain(
            self._by_vector,
            self._by_text,
            total_indexed,
            breaker,
            vector_seconds=settings.context_vector_seconds,
            text_seconds=settings.context_text_seconds,
        )

    def close(self) -> None:
        self._chain.close()

    def search(self, asked: ContextQuery) -> ContextAnswer:
        """Answer a search, whatever is down.

        Raises InvalidQueryError for a query that is not valid, and CollectionNotFoundError.
        """
        began = time.perf_counter()
        check_query(asked.query)
        outcome = self._chain.search(asked)
        latency_ms = milliseconds_since(began)
        if not current().owns_nothing:
            self._record(asked, outcome, latency_ms)
        answer = outcome.answer
        return ContextAnswer(
            [] if answer is None else [to_item(each) for each in answer.results],
            latency_ms,
            outcome.fallback,
            fallback_level=outcome.level,
            circuit_breaker_open=outcome.level == BREAKER_OPEN,
            total_indexed=outcome.total_indexed,
            receipt=None if answer is None else answer.receipt.collections,
        )

    def _by_vector(self, asked: ContextQuery) -> SearchAnswer:
        seconds = SHARE_FOR_ASKING * self._settings.context_vector_seconds
        request = replace(_request(asked, SEMANTIC, seconds), min_relevance=asked.min_relevance, cached_for="context")
        return search_by_meaning(self._engine, request)

    def _by_text(self, asked: ContextQuery) -> SearchAnswer:
        if not self._settings.text_fallback:
            raise UnavailableError("The search by words is off (RAG_TEXT_FALLBACK)")
        seconds = SHARE_FOR_ASKING * self._settings.context_text_seconds
        return self._engine.search(_request(asked, LexicalOracle.name, seconds))

    def _record(self, asked: ContextQuery, outcome: Outcome, latency_ms: float) -> None:
        answer = outcome.answer
        embedding_ms = vector_ms = None
        if answer is not None and (semantic := answer.receipt.oracles.get(SEMANTIC)) is not None:
            embedding_ms = answer.receipt.embedding_latency_ms
            vector_ms = max(0.0, semantic.latency_ms - (embedding_ms or 0.0))
        row = SearchRow(
            timestamp_ms=round(time.time() * 1e3),
            query=asked.query if self._settings.log_queries else "",
            results_count=0 if answer is None else len(answer.results),
            latency_ms=latency_ms,
            embedding_latency_ms=embedding_ms,
            vector_latency_ms=vector_ms,
            fallback=outcome.fallback,
            fallback_level=outcome.level,
            cache_hit=answer is not None and answer.is_cached,
            agent=asked.agent or UNKNOWN_AGENT,
            content_type=asked.content_type,
            category=asked.category,
            game=asked.game,
            error=outcome.error,
            owner=current().owner,
        )
        try:
            self._metrics.record(row)
        except Exception:  # the search has its answer, which counting must not lose
            log.exception("a search is not in the statistics")


def _request(asked: ContextQuery, oracle: str, seconds: float) -> SearchRequest:
    return SearchRequest(
        asked.query,
        limit=asked.limit,
        oracles=(oracle,),
        collections=asked.collections,
        where=to_where(asked),
        by_passage=True,
        joins=False,
        limit_seconds=seconds,
    )
