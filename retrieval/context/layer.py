"""The parts of the contract *context* put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from providers.base import SupportsTextSearch
from retrieval.context.breaker import CircuitBreaker
from retrieval.context.health import ContextHealth, Probe
from retrieval.context.indexing import ContextIndex
from retrieval.context.search_metrics import SearchMetrics
from retrieval.context.searching import ContextSearch
from retrieval.context.stats import ContextStatistics
from retrieval.search.engine import SearchEngine
from retrieval.text_collections import TextCollections
from schemas.access.callers import current
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
    TimeRange,
)
from schemas.settings import RetrievalSettings
from schemas.shared_database import Database

PROBE_SPARE_SECONDS = 2.0
"""The seconds that a search which probes for the circuit breaker may take beyond those of its levels."""


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
            threshold=settings.breaker_threshold,
            timeout_seconds=settings.breaker_timeout_seconds,
            probe_seconds=settings.context_vector_seconds + settings.context_text_seconds + PROBE_SPARE_SECONDS,
        )
        self._texts = texts
        self._metrics = SearchMetrics(database, days=settings.metrics_days)
        self._search = ContextSearch(engine, self._indexed_chunks, self.breaker, self._metrics, settings)
        self._health = ContextHealth(
            lambda: {
                STORAGE: self._look_for_collections,
                VECTOR_STORE: vector_store,
                **models(),
                TEXT_SEARCH: self._search_by_words,
            },
            self._indexed_documents,
            self.breaker,
        )
        self._index = ContextIndex(texts, settings.context_collection)
        self._statistics = ContextStatistics(self._metrics, self._indexed_documents)

    def search(self, asked: ContextQuery) -> ContextAnswer:
        """Answer a search, whatever is down. Raises as `ContextSearch.search` does."""
        return self._search.search(asked)

    def index(self, document: ContextDocument) -> IndexedText:
        """Store a text. Raises as `ContextIndex.index` does."""
        return self._index.index(document)

    def health(self) -> ContextHealthReport:
        """Ask after all parts, and never raise."""
        return self._health.report()

    def stats(self, asked: TimeRange) -> ContextStats:
        """Return the caller's statistics of a time range. Raises UnavailableError when the database does not answer."""
        return self._statistics.report(asked, asker=current().asker)

    def close(self) -> None:
        self._search.close()
        self._health.close()

    def _indexed_documents(self) -> int:
        chosen = self._texts.searched()
        return sum(self._texts.documents_in(chosen.corpus, each) for each in chosen.asked)

    def _indexed_chunks(self) -> int:
        return sum(each.count or 0 for each in self._texts.searched().asked)

    def _look_for_collections(self) -> None:
        self._texts.searched()

    def _search_by_words(self) -> None:
        chosen = self._texts.searched()
        search = chosen.corpus.able(SupportsTextSearch)
        for collection in chosen.asked:
            search.text_search(collection.name, "health", top_k=1)
