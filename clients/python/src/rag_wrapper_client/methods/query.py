"""Methods that find documents in one collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from numpy.typing import ArrayLike

from rag_wrapper_client.embeddings import encoded
from rag_wrapper_client.exchanges import Exchange, Request, ask, at, get, given, read
from rag_wrapper_client.operations import operation
from rag_wrapper_client.wire.storage import (
    Gather,
    GatherDocumentsAnswer,
    ProbeQueryAnswer,
    QueryResults,
    SearchTextAnswer,
)


class Query(TypedDict, total=False):
    """One of several questions: near `query_embedding`, or near the documents `ids`."""

    query_embedding: ArrayLike | str
    ids: Sequence[str]
    top_k: int
    where: Mapping[str, Any]
    max_distance: float
    include: Sequence[str]
    gather: Gather
    query: str


class QueryMethods:
    @operation
    def query(
        self,
        collection: str,
        embedding: ArrayLike | str | None = None,
        *,
        ids: Sequence[str] | None = None,
        top_k: int | None = None,
        where: Mapping[str, Any] | None = None,
        max_distance: float | None = None,
        include: Sequence[str] | None = None,
        gather: Gather | None = None,
        query: str | None = None,
    ) -> Exchange[QueryResults]:
        """Return the documents nearest to an embedding, or to those of `ids`, best first; with `gather` their whole
        sections too. `query` are the words behind the embedding, for the log."""
        body = given(
            {
                "query_embedding": None if embedding is None else encoded(embedding),
                "ids": ids,
                "top_k": top_k,
                "where": where,
                "max_distance": max_distance,
                "include": include,
                "gather": gather,
                "query": query,
            }
        )
        return ask(read(at("/collections/{}/query", collection), body))

    @operation
    def query_many(self, collection: str, queries: Sequence[Query]) -> Exchange[list[QueryResults]]:
        """Answer several questions, at most 100, in their order."""
        return _answers(read(at("/collections/{}/query", collection), {"queries": [_sent(each) for each in queries]}))

    @operation
    def probe_query(self) -> Exchange[ProbeQueryAnswer]:
        """Ask whether queries can be made, and over how many collections."""
        return ask(get("/query"))

    @operation
    def text_search(
        self, collection: str, query: str, *, top_k: int | None = None, where: Mapping[str, Any] | None = None
    ) -> Exchange[SearchTextAnswer]:
        """Return the documents that have the words of a text, best first."""
        body = given({"query": query, "top_k": top_k, "where": where})
        return ask(read(at("/collections/{}/text-search", collection), body))

    @operation
    def gather(
        self,
        collection: str,
        *,
        by: str | Sequence[str],
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        before: int | None = None,
        after: int | None = None,
        text: bool | None = None,
        include: Sequence[str] | None = None,
    ) -> Exchange[GatherDocumentsAnswer]:
        """Return the groups, by a metadata field or several, of the documents given by ids or by filter."""
        body = given(
            {
                "by": by,
                "ids": ids,
                "where": where,
                "order_by": order_by,
                "limit": limit,
                "before": before,
                "after": after,
                "text": text,
                "include": include,
            }
        )
        return ask(read(at("/collections/{}/gather", collection), body))


def _sent(query: Query) -> dict[str, Any]:
    sent: dict[str, Any] = dict(query)
    if sent.get("query_embedding") is not None:
        sent["query_embedding"] = encoded(sent["query_embedding"])
    return sent


def _answers(request: Request) -> Exchange[list[QueryResults]]:
    answer = yield from ask(request)
    answers: list[QueryResults] = answer["answers"]
    return answers
