"""Searches of the context tools: the fallback chain over the collections of all contracts, with metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog

from retrieval.clock import milliseconds_since
from retrieval.context.background_writer import BackgroundWriter
from retrieval.context.breaker import CircuitBreaker
from retrieval.context.fallback import FallbackChain, Found, Outcome
from retrieval.context.items import to_item, to_where
from retrieval.context.search_metrics import SearchMetrics, SearchRow
from retrieval.result_cache import KeptAnswer, ResultCache, read_again, states_of
from retrieval.search.oracles.base import Question
from retrieval.search.oracles.lexical import LexicalOracle
from retrieval.text_collections import TextCollections
from schemas.access.callers import carried, current
from schemas.connections import CollectionInfo
from schemas.contracts.context import ContextAnswer, ContextQuery
from schemas.contracts.search import check_query
from schemas.errors import UnavailableError
from schemas.settings import RetrievalSettings
from schemas.storage.erasure_count import UNKNOWN
from schemas.where import to_json

log = structlog.get_logger(__name__)

UNKNOWN_AGENT = "unknown"
SHARE_FOR_ASKING = 0.8
"""The share of a level's seconds after which no further collection is asked, so that there is still an answer."""
MOST_KEPT_LATER = 100
"""The most answers that may wait to be kept. Further answers are not kept."""


class ContextSearch:
    """Answers searches, usable by several threads. `clock` is in seconds since the epoch."""

    def __init__(
        self,
        texts: TextCollections,
        lexical: LexicalOracle,
        cache: ResultCache,
        breaker: CircuitBreaker,
        metrics: SearchMetrics,
        settings: RetrievalSettings,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._texts = texts
        self._lexical = lexical
        self._cache = cache
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
        self._chain: FallbackChain[ContextQuery] = FallbackChain(
            self._by_vector,
            self._by_text,
            lambda: _chunks(texts.searched().asked),
            breaker,
            vector_seconds=settings.context_vector_seconds,
            text_seconds=settings.context_text_seconds,
        )
        # Keeping an answer takes the catalogue's write lock, which no search should wait for.
        self._to_keep: BackgroundWriter[Callable[[], object]] = BackgroundWriter(
            "context-answers", _run_each, most_waiting=MOST_KEPT_LATER
        )

    def close(self) -> None:
        self._chain.close()
        self._to_keep.close()

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
        return ContextAnswer(
            outcome.found.results,
            latency_ms,
            outcome.fallback,
            fallback_level=outcome.level,
            circuit_breaker_open=outcome.circuit_breaker_open,
            total_indexed=outcome.found.total_indexed,
            receipt=outcome.found.receipt,
        )

    def _by_vector(self, asked: ContextQuery) -> Found:
        until = time.monotonic() + SHARE_FOR_ASKING * self._settings.context_vector_seconds
        chosen = self._texts.searched(asked.collections)
        total = _chunks(chosen.asked)
        if not chosen.asked:
            return Found([], total, receipt=chosen.receipt)
        key = self._key(asked, chosen.asked)
        kept, began_at = self._cache.find(key) if key else (None, UNKNOWN)
        known = read_again(chosen.corpus, kept, chosen.asked) if kept else None
        if known is not None:
            return Found([to_item(each) for each in known], total, cache_hit=True, receipt=chosen.receipt)
        began = time.perf_counter()
        embedded = self._texts.embed(asked.query, chosen, self._settings.context_vector_seconds)
        embedding_latency_ms = milliseconds_since(began)
        began = time.perf_counter()
        question = Question(asked.query, chosen.corpus, chosen.asked, to_where(asked), until)
        answer = self._texts.near(embedded, question, asked.limit, min_relevance=asked.min_relevance)
        vector_latency_ms = milliseconds_since(began)
        results = [to_item(each) for each in answer.results]
        if key and not answer.left_out:
            # For whom an answer is kept is part of its key.
            self._to_keep.put(carried(partial(self._cache.keep, key, KeptAnswer.of(answer.results), since=began_at)))
        receipt = chosen.receipt.without(answer.left_out)
        return Found(results, total, False, embedding_latency_ms, vector_latency_ms, receipt)

    def _by_text(self, asked: ContextQuery) -> Found:
        if not self._settings.text_fallback:
            raise UnavailableError("The search by words is off (RAG_TEXT_FALLBACK)")
        until = time.monotonic() + SHARE_FOR_ASKING * self._settings.context_text_seconds
        chosen = self._texts.searched(asked.collections)
        question = Question(asked.query, chosen.corpus, chosen.asked, to_where(asked), until)
        answer = self._lexical.query(question, asked.limit)
        receipt = chosen.receipt.without(answer.left_out)
        return Found([to_item(each) for each in answer.results], _chunks(chosen.asked), receipt=receipt)

    def _key(self, asked: ContextQuery, collections: Sequence[CollectionInfo]) -> list[Any] | None:
        """Return what an answer depends on, as JSON; None where that cannot be told."""
        states = states_of(collections)
        if states is None:
            return None
        return [
            "context",
            asked.query,
            asked.limit,
            asked.min_relevance,
            to_json(to_where(asked)) or None,
            states,
            self._texts.embedding().model,
        ]

    def _record(self, asked: ContextQuery, outcome: Outcome, latency_ms: float) -> None:
        row = SearchRow(
            timestamp_ms=round(self._clock() * 1e3),
            query=asked.query if self._settings.log_queries else "",
            results_count=len(outcome.found.results),
            latency_ms=latency_ms,
            embedding_latency_ms=outcome.found.embedding_latency_ms,
            vector_latency_ms=outcome.found.vector_latency_ms,
            fallback=outcome.fallback,
            fallback_level=outcome.level,
            cache_hit=outcome.found.cache_hit,
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


def _run_each(works: list[Callable[[], object]]) -> None:
    for work in works:
        work()


def _chunks(collections: Sequence[CollectionInfo]) -> int:
    return sum(each.count or 0 for each in collections)
