"""The passages that an answer of the chat model rests on, found by the search that everybody has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from registry.topics.topic import searched_text
from retrieval.documents.stored_documents import to_where
from retrieval.documents.text_document_store import similar_chunk
from retrieval.search.engine import SearchEngine, search_by_meaning
from schemas.access.owners import Asker
from schemas.contracts.chat import ChatRequest, ChatSearch, Message
from schemas.contracts.search import SearchRequest, searchable
from schemas.contracts.text_documents import SimilarChunk
from schemas.where import all_of


@dataclass(frozen=True, slots=True)
class Passages:
    """What was found for a question: the passages that are relevant enough, best first, and the greatest relevance of
    them. A passage whose relevance cannot be told is relevant enough."""

    chunks: Sequence[SimilarChunk] = ()
    relevance: float | None = None
    search: ChatSearch | None = None


class ChatPassages:
    """Finds passages for chat requests; safe for use by several threads.

    They are those of `engine`, or those nearest `by_meaning` alone. With `only_relevant`, requests that do not say how
    relevant they must be get what the search thinks relevant, and else the best that there is.
    """

    def __init__(self, engine: SearchEngine, *, only_relevant: bool, by_meaning: bool = False) -> None:
        self._engine = engine
        self._only_relevant = only_relevant
        self._by_meaning = by_meaning

    def find(self, request: ChatRequest, messages: Sequence[Message], asker: Asker) -> Passages:
        """Return the passages for the last of the messages. Raises what `SearchEngine.search` raises."""
        strategy, text = searched_text([each.content for each in messages if each.role == "user"])
        wanted = SearchRequest(
            searchable(text),
            limit=request.rag_top_k,
            collections=request.collections,
            where=all_of(to_where(request.rag_filters), request.where),
            min_relevance=0.0 if request.min_relevance is None and not self._only_relevant else request.min_relevance,
            rerank=request.rerank,
            max_per_document=request.max_per_document,
            asker=asker,
        )
        answer = search_by_meaning(self._engine, wanted) if self._by_meaning else self._engine.search(wanted)
        chunks = [similar_chunk(each) for each in answer.results]
        known = [each.relevance for each in chunks if each.relevance is not None]
        return Passages(chunks, max(known, default=None), ChatSearch(strategy.value, wanted.query, answer.receipt))
