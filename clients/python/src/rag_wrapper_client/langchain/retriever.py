"""A retriever of LangChain over the search of the service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import run_in_executor
from pydantic import ConfigDict

from rag_wrapper_client.client import Client
from rag_wrapper_client.wire.searching import SearchAnswer, SearchedGroup, SearchResult


class RagWrapperRetriever(BaseRetriever):
    """What the service finds by meaning and by words in its text collections, fused, best first.

    `collections` are names or beginnings of names (`team-*`), all when left out. `filter` is a `where`. Hits below
    `min_relevance` (0 to 1; the service's own bound when left out) are left out. With `gather`, such as
    `{"by": "section_id", "order_by": "chunk_index"}`, whole sections are given instead of passages, each once and with
    the metadata of its best hit. The metadata of a document has its `relevance` (None where only words found it),
    `score` and `collection` too. Each argument but `client` can also be given to `invoke`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: Client
    k: int = 4
    collections: str | list[str] | None = None
    filter: dict[str, Any] | None = None
    min_relevance: float | None = None
    gather: dict[str, Any] | None = None
    oracles: list[str] | None = None
    weights: dict[str, float] | None = None
    fusion: str | None = None
    rerank: str | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **asked: Any
    ) -> list[Document]:
        return self._found(query, asked)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **asked: Any
    ) -> list[Document]:
        return await run_in_executor(None, self._found, query, asked)

    def _found(self, query: str, asked: Mapping[str, Any]) -> list[Document]:
        wanted = {name: getattr(self, name) for name in _WIRE} | dict(asked)
        if unread := wanted.keys() - _WIRE.keys():
            raise TypeError(f"nothing reads {', '.join(map(repr, sorted(unread)))}")
        if wanted["gather"] is not None:
            wanted["gather"] = {**wanted["gather"], "text": True}
        search: Any = self.client.search
        answer: SearchAnswer = search(query, **{_WIRE[name]: value for name, value in wanted.items()})
        if wanted["gather"] is None:
            return [_passage(hit) for hit in answer["results"]]
        hits = {(hit["collection"], hit["chunk_id"]): hit for hit in answer["results"]}
        return [_section(group, hits) for group in answer.get("groups", [])]


_WIRE = {
    "k": "limit",
    "collections": "collections",
    "filter": "where",
    "min_relevance": "min_relevance",
    "gather": "gather",
    "oracles": "oracles",
    "weights": "weights",
    "fusion": "fusion",
    "rerank": "rerank",
}
"""The arguments of a retriever, and what the client calls them."""


def _passage(hit: SearchResult) -> Document:
    return Document(id=hit["chunk_id"], page_content=hit["content"], metadata=_metadata(hit))


def _section(group: SearchedGroup, hits: Mapping[tuple[str, str], SearchResult]) -> Document:
    """Return a section with the metadata of its best hit."""
    ids = [each["id"] for each in group["documents"] if each["hit"]]
    ranked = [hits[place] for place in hits if place[0] == group["collection"] and place[1] in ids]
    return Document(
        page_content=group["text"],
        metadata={**_metadata(ranked[0]), "group_key": group["key"], "hits": ids, "complete": group["complete"]},
    )


def _metadata(hit: SearchResult) -> dict[str, Any]:
    told = {"relevance": hit["relevance"], "score": hit["score"], "collection": hit["collection"]}
    return {**hit["metadata"], **told}
