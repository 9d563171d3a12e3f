"""Searches of the context tools: the fallback chain over the collections of all contracts, with metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from retrieval.clock import milliseconds_since
from retrieval.context.breaker import CircuitBreaker
from retrieval.context.fallback import BREAKER_OPEN, FallbackChain, Outcome
from retrieval.context.items import to_item, to_where
from retrieval.context.search_metrics import SearchMetrics, SearchRow
from retrieval.search.by_meaning import BY_MEANING, SEMANTIC, search_by_meaning
from retrieval.search.engine import SearchEngine
from retrieval.search.oracles.lexical import LexicalOracle
from schemas.access.callers import current
from schemas.contracts.context import ContextAnswer, ContextQuery
from schemas.contracts.search import SearchAnswer, SearchRequest, check_query
from schemas.errors import UnavailableError
from schemas.settings import RetrievalSettings

log = structlog.get_logger(__name__)

UNKNOWN_AGENT = "unknown"
SHARE_FOR_ASKING = 0.9
"""The share of a level's seconds that its search may take, so that its answer comes in time."""


class ContextSearch:
    """Answers searches, usable by several threads. `clock` is in seconds since the epoch."""

    def __init__(
        self,
        engine: SearchEngine,
        total_indexed: Callable[[], int],
        breaker: CircuitBreaker,
        metrics: SearchMetrics,
        settings: RetrievalSettings,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
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
        request = replace(_request(asked, BY_MEANING, seconds), min_relevance=asked.min_relevance, cached_for="context")
        return search_by_meaning(self._engine, request)

    def _by_text(self, asked: ContextQuery) -> SearchAnswer:
        if not self._settings.text_fallback:
            raise UnavailableError("The search by words is off (RAG_TEXT_FALLBACK)")
        seconds = SHARE_FOR_ASKING * self._settings.context_text_seconds
        return self._engine.search(_request(asked, (LexicalOracle.name,), seconds))

    def _record(self, asked: ContextQuery, outcome: Outcome, latency_ms: float) -> None:
        answer = outcome.answer
        embedding_ms = vector_ms = None
        if answer is not None and (semantic := answer.receipt.oracles.get(SEMANTIC)) is not None:
            embedding_ms = answer.receipt.embedding_latency_ms
            vector_ms = max(0.0, semantic.latency_ms - (embedding_ms or 0.0))
        row = SearchRow(
            timestamp_ms=round(self._clock() * 1e3),
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


def _request(asked: ContextQuery, oracles: tuple[str, ...], seconds: float) -> SearchRequest:
    return SearchRequest(
        asked.query,
        limit=asked.limit,
        oracles=oracles,
        collections=asked.collections,
        where=to_where(asked),
        by_passage=True,
        joins=False,
        limit_seconds=seconds,
    )
