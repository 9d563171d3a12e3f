"""The tools of the contract *context* put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from providers.base import SupportsTextSearch
from retrieval.context.breaker import CircuitBreaker
from retrieval.context.health_tool import STORAGE, TEXT_SEARCH, VECTOR_STORE, ContextHealth, Probe
from retrieval.context.index_tool import ContextIndex
from retrieval.context.search_metrics import SearchMetrics
from retrieval.context.search_tool import ContextSearch
from retrieval.context.stats_tool import ContextStatistics
from retrieval.result_cache import ResultCache
from retrieval.search.oracles.lexical import LexicalOracle
from retrieval.text_collections import TextCollections
from retrieval.tool import Tool
from schemas.settings import RetrievalSettings
from schemas.shared_database import Database
from schemas.tool_schemas import read_tool_schemas
from schemas.wire.context import context_answer, context_health, context_stats, indexed_text

SEARCH, INDEX = "rag_context_search", "rag_context_index"
HEALTH, STATS = "rag_context_health", "rag_context_stats"
SEARCH_DESCRIPTION = (
    "Search the indexed context: the pieces of text nearest in meaning to a query, best first, with their source, time "
    "and metadata. Falls back to a search by words, and always answers."
)
INDEX_DESCRIPTION = (
    "Index a text, so that searches find it: a decision, a piece of chat, code or documentation. The same text from "
    "the same source in the same session is brought up to date."
)
HEALTH_DESCRIPTION = "How the parts are that searches need: storage, vector store, embeddings, search by words."
STATS_DESCRIPTION = "How much is indexed, and how many searches there were, how fast, and by which agents."
PROBE_SPARE_SECONDS = 2.0
"""The seconds that a search which probes for the circuit breaker may take beyond those of its levels."""


class ContextLayer:
    """The four tools, in the order in which they are listed, and what they share.

    The probes given ask after the vector store and the models (`embedding`, and `chat` where there is one). Those of
    storage and text search are made here.
    """

    def __init__(
        self,
        texts: TextCollections,
        lexical: LexicalOracle,
        database: Database,
        cache: ResultCache,
        settings: RetrievalSettings,
        *,
        lock_file: Path,
        vector_store: Probe,
        models: Mapping[str, Probe],
    ) -> None:
        self.breaker = CircuitBreaker(
            database,
            threshold=settings.breaker_threshold,
            timeout_seconds=settings.breaker_timeout_seconds,
            probe_seconds=settings.context_vector_seconds + settings.context_text_seconds + PROBE_SPARE_SECONDS,
        )
        self._texts = texts
        self._metrics = SearchMetrics(database, lock_file, days=settings.metrics_days)
        self._search = ContextSearch(texts, lexical, cache, self.breaker, self._metrics, settings)
        self._health = ContextHealth(
            {
                STORAGE: self._look_for_collections,
                VECTOR_STORE: vector_store,
                **models,
                TEXT_SEARCH: self._search_by_words,
            },
            self._indexed_documents,
            self.breaker,
        )
        indexing = ContextIndex(texts, settings.context_collection)
        statistics = ContextStatistics(self._metrics, self._indexed_documents)
        allowed = {"category": settings.context_categories, "contentType": settings.context_content_types}

        def tool(name: str, description: str, run: Callable[[dict[str, Any]], dict[str, Any]], **hints: Any) -> Tool:
            schemas = read_tool_schemas(name, allowed)
            return Tool(name, description, schemas.input, schemas.output, run, **hints)

        self.tools: Mapping[str, Tool] = {
            each.name: each
            for each in (
                tool(SEARCH, SEARCH_DESCRIPTION, lambda asked: context_answer(self._search.run(asked))),
                tool(
                    INDEX,
                    INDEX_DESCRIPTION,
                    lambda asked: indexed_text(indexing.run(asked)),
                    read_only=False,
                    writes_to=settings.context_collection,
                ),
                tool(HEALTH, HEALTH_DESCRIPTION, lambda asked: context_health(self._health.run(asked))),
                tool(STATS, STATS_DESCRIPTION, lambda asked: context_stats(statistics.run(asked))),
            )
        }

    def close(self) -> None:
        self._search.close()
        self._health.close()
        self.breaker.close()
        self._metrics.close()

    def _indexed_documents(self) -> int:
        chosen = self._texts.searched()
        return sum(self._texts.documents_in(chosen.corpus, each) for each in chosen.asked)

    def _look_for_collections(self) -> None:
        self._texts.searched()

    def _search_by_words(self) -> None:
        chosen = self._texts.searched()
        search = chosen.corpus.able(SupportsTextSearch)
        for collection in chosen.asked:
            search.text_search(collection.name, "health", top_k=1)
