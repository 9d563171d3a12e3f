"""Methods that search by meaning and by words over several collections, or over other services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from rag_wrapper_client.exchanges import Exchange, ask, given, read
from rag_wrapper_client.operations import operation
from rag_wrapper_client.wire.searching import CollectAnswer, RerankAnswer, SearchAnswer
from rag_wrapper_client.wire.storage import Gather

Fusion = Literal["smoothed", "scores", "rrf"]


class SelectedCollection(TypedDict):
    """A collection of a connection, and what embeds the question for it."""

    service: str
    name: str
    embedding_connection: NotRequired[str]
    embedding_model: NotRequired[str]
    where: NotRequired[Mapping[str, Any]]


class RerankedText(TypedDict):
    """A text to put in order."""

    id: str
    text: str


class SearchMethods:
    @operation
    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        collections: str | Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        oracles: Sequence[str] | None = None,
        weights: Mapping[str, float] | None = None,
        fusion: Fusion | None = None,
        gather: Gather | None = None,
        min_relevance: float | None = None,
        rerank: str | None = None,
        explain: bool | Sequence[str] | None = None,
    ) -> Exchange[SearchAnswer]:
        """Ask all oracles (by meaning, by words, …) and fuse what they find. `collections` are names, or beginnings of
        names (`team-*`); `min_relevance=0` leaves out nothing."""
        body = given(
            {
                "query": query,
                "limit": limit,
                "collections": [collections] if isinstance(collections, str) else collections,
                "where": where,
                "oracles": oracles,
                "weights": weights,
                "fusion": fusion,
                "gather": gather,
                "min_relevance": min_relevance,
                "rerank": rerank,
                "explain": explain,
            }
        )
        return ask(read("/api/search", body))

    @operation
    def rerank(
        self,
        query: str,
        documents: Sequence[RerankedText],
        *,
        top_k: int | None = None,
        connection: str | None = None,
    ) -> Exchange[RerankAnswer]:
        """Put texts in the order of how well they answer a question."""
        body = given({"query": query, "documents": documents, "top_k": top_k, "connection": connection})
        return ask(read("/rerank", body))

    @operation
    def collect(
        self,
        user_message: str,
        selected_collections: Sequence[SelectedCollection],
        *,
        topic: str | None = None,
        current_topic: str | None = None,
        conversation_id: str | None = None,
        top_k: int | None = None,
        match_threshold: float | None = None,
        partial_threshold: float | None = None,
        query_text: str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Exchange[CollectAnswer]:
        """Collect what collections of several connections have on a message of a conversation."""
        body = given(
            {
                "userMessage": user_message,
                "selectedCollections": selected_collections,
                "topic": topic,
                "currentTopic": current_topic,
                "conversationId": conversation_id,
                "top_k": top_k,
                "match_threshold": match_threshold,
                "partial_threshold": partial_threshold,
                "queryText": query_text,
                "where": where,
            }
        )
        return ask(read("/api/collect", body))
