"""What the four context tools do: search, index, health and statistics (contract *context*)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import structlog

from providers.base import SupportsTextSearch
from retrieval.asking import ask_within
from retrieval.clock import milliseconds_since, utc_now, z_time
from retrieval.context.fallback import BREAKER_OPEN, CircuitBreaker, FallbackChain, Outcome
from retrieval.context.items import document_id_of, to_item, to_source, to_where
from retrieval.context.search_metrics import SearchMetrics
from retrieval.ingest.identity import chunk_id
from retrieval.search.engine import SEMANTIC, SearchEngine, search_by_meaning
from retrieval.search.oracles.lexical import LexicalOracle
from retrieval.text_collections import TextCollections
from schemas.access.callers import current
from schemas.connections import DEGRADED, HEALTHY, UNHEALTHY
from schemas.contracts.context import (
    STORAGE,
    TEXT_SEARCH,
    VECTOR_STORE,
    ContextAnswer,
    ContextDocument,
    ContextHealthReport,
    ContextQuery,
    ContextStats,
    IndexedText,
    PartHealth,
    TimeRange,
)
from schemas.contracts.search import SearchAnswer, SearchRequest, check_query
from schemas.errors import UnavailableError
from schemas.settings import RetrievalSettings
from schemas.shared_database import Database

log = structlog.get_logger(__name__)

Probe = Callable[[], object]
"""Asks after a part, and raises RagError with the reason when it is down."""
HEALTH_SECONDS = 2.0
"""How long each part is asked after; all are asked at once."""
HEALTH_PARALLEL = 8
UNKNOWN_AGENT = "unknown"
SHARE_FOR_ASKING = 0.9
"""The share of a level's seconds that its search may take, so that its answer comes in time."""


class ContextLayer:
    """What the four context tools do, and what they share.

    The probes given ask after the vector store and the models (`embedding`, and `chat` where there is one). Those of
    storage and text search are made here.
    """

    def __init__(
        self,
        texts: TextCollections,
        engine: SearchEngine,
        database: Database,
        settings: RetrievalSettings,
        *,
        vector_store: Probe,
        models: Callable[[], Mapping[str, Probe]],
    ) -> None:
        self.breaker = CircuitBreaker(
            threshold=settings.breaker_threshold, timeout_seconds=settings.breaker_timeout_seconds
        )
        self._texts = texts
        self._metrics = SearchMetrics(database, days=settings.metrics_days)
        self._engine = engine
        self._settings = settings
        self._chain = FallbackChain(
            self._by_vector,
            self._by_text,
            self._indexed_chunks,
            self.breaker,
            vector_seconds=settings.context_vector_seconds,
            text_seconds=settings.context_text_seconds,
        )
        self._vector_store, self._models = vector_store, models
        self._health_pool = ThreadPoolExecutor(HEALTH_PARALLEL, thread_name_prefix="context-health")

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

    def index(self, document: ContextDocument) -> IndexedText:
        """Split, embed and store a text as a whole, and return what was stored.

        Raises what `TextCollections.ingest` raises; nothing is stored then.
        """
        began = time.perf_counter()
        done = self._texts.ingest(self._settings.context_collection, lambda embedding: to_source(document, embedding))
        stored_as = document_id_of(document)
        chunk_ids = [chunk_id(stored_as, index) for index in range(done.chunks)]
        return IndexedText(stored_as, chunk_ids, milliseconds_since(began))

    def health(self) -> ContextHealthReport:
        """Ask after the parts that there are now, and never raise.

        The status is `unhealthy` when the storage is down, and `degraded` when another part is down or the breaker is
        not closed: searches are then answered from the parts that are left.
        """
        began = time.perf_counter()
        probes: dict[str, Probe] = {
            STORAGE: self._texts.searched,
            VECTOR_STORE: self._vector_store,
            **self._models(),
            TEXT_SEARCH: self._search_by_words,
        }
        submit = self._health_pool.submit
        asked = {name: ask_within(HEALTH_SECONDS, submit, probe) for name, probe in probes.items()}
        counted = ask_within(HEALTH_SECONDS, submit, self._indexed_documents)
        parts = {
            name: PartHealth(each.milliseconds, None if each.error is None else each.error.message)
            for name, each in ((name, outcome()) for name, outcome in asked.items())
        }
        documents = counted()
        if documents.error is not None:
            log.warning("indexed documents cannot be counted", reason=documents.error.message)
        is_open = not self.breaker.is_closed()
        healthy = all(part.healthy for part in parts.values()) and not is_open
        return ContextHealthReport(
            HEALTHY if healthy else DEGRADED if parts[STORAGE].healthy else UNHEALTHY,
            parts,
            milliseconds_since(began),
            indexed_documents=documents.value,
            circuit_breaker_open=is_open,
            timestamp=z_time(utc_now()),
        )

    def stats(self, asked: TimeRange) -> ContextStats:
        """Return the caller's statistics of a time range. Raises UnavailableError when the database does not answer."""
        return self._metrics.statistics(asked, self._indexed_documents(), asker=current().asker)

    def close(self) -> None:
        self._chain.close()
        self._health_pool.shutdown(cancel_futures=True)

    def _indexed_documents(self) -> int:
        chosen = self._texts.searched()
        return sum(self._texts.documents_in(chosen.corpus, each) for each in chosen.asked)

    def _indexed_chunks(self) -> int:
        return sum(each.count or 0 for each in self._texts.searched().asked)

    def _search_by_words(self) -> None:
        chosen = self._texts.searched()
        search = chosen.corpus.able(SupportsTextSearch)
        for collection in chosen.asked:
            search.text_search(collection.name, "health", top_k=1)

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
        row = {
            "timestamp_ms": round(time.time() * 1e3),
            "query": asked.query if self._settings.log_queries else "",
            "results_count": 0 if answer is None else len(answer.results),
            "latency_ms": latency_ms,
            "embedding_latency_ms": embedding_ms,
            "vector_latency_ms": vector_ms,
            "fallback": outcome.fallback,
            "fallback_level": outcome.level,
            "cache_hit": answer is not None and answer.is_cached,
            "agent": asked.agent or UNKNOWN_AGENT,
            "content_type": asked.content_type,
            "category": asked.category,
            "game": asked.game,
            "error": outcome.error,
            "owner": current().owner,
        }
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
