"""Methods of ingestion, retrieval and chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict, Unpack

from rag_wrapper_client.exchanges import Exchange, Request, ask, at, change, get, given, read, write
from rag_wrapper_client.operations import listing, operation, streamed
from rag_wrapper_client.pages import Listing, paged
from rag_wrapper_client.streams import EventDecoder, Opening
from rag_wrapper_client.wire.answering import (
    ChatAnswer,
    ChatAnswerData,
    ChatSource,
    Citation,
    DeleteConversationAnswer,
    GetConversationAnswer,
    IngestionResult,
    RagContext,
    RagDeleteDocumentAnswer,
    RagDocument,
    RagFilters,
    RagIngestAnswer,
    RagMetricsAnswer,
    RagSearchAnswer,
)


class Message(TypedDict):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Chat(TypedDict, total=False):
    """What a chat may be asked with, beside its messages."""

    messages: Sequence[Message]
    conversation_id: str
    system: str
    connection: str
    model: str
    options: Mapping[str, Any]
    use_rag: bool
    rag_top_k: int
    rag_filters: RagFilters
    min_relevance: float
    collections: str | Sequence[str]
    where: Mapping[str, Any]
    shared: bool


class ChatEvent(TypedDict, total=False):
    """An event of a streamed chat: a `delta`, with a `thought` where the service shows thoughts, or at last `done` with
    the fields of a `ChatAnswer`."""

    delta: str
    thought: str
    done: bool
    status: str
    finishReason: Literal["stop", "length", "content_filter"]
    thoughts: str
    data: ChatAnswerData
    ragUsed: bool
    ragSources: list[ChatSource]
    citations: list[Citation]
    relevance: float | None
    receipt: dict[str, Any]
    warnings: list[str]


class RuleDocument(TypedDict):
    """A Markdown file of a batch. Its metadata must have `source`, `doc_type` and `last_update_date`."""

    filename: str
    content: str
    metadata: Mapping[str, Any]
    document_id: NotRequired[str]


_WIRE = {
    "conversation_id": "conversationId",
    "use_rag": "useRag",
    "rag_top_k": "ragTopK",
    "rag_filters": "ragFilters",
}


class RagMethods:
    @operation
    def ingest(
        self,
        *,
        source: str,
        path: str,
        title: str,
        text: str,
        hash: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Exchange[RagIngestAnswer]:
        """Split, embed and store a text. The same `source` and `path` again replaces it; an equal `hash` leaves it."""
        body = given(
            {
                "source": source,
                "path": path,
                "title": title,
                "text": text,
                "hash": hash,
                "tags": tags,
                "metadata": metadata,
            }
        )
        return ask(write("POST", "/api/rag/ingest", body, idempotency_key=idempotency_key))

    @operation
    def ingest_batch(
        self,
        documents: Sequence[RuleDocument],
        *,
        collection: str | None = None,
        replace_missing: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Exchange[IngestionResult]:
        """Split, embed and store Markdown files, each on its own. `replace_missing` deletes what is not among them."""
        body = given({"documents": documents, "collection": collection, "replace_missing": replace_missing})
        return ask(write("POST", "/api/rag/documents:batch", body, idempotency_key=idempotency_key))

    @operation
    def rag_search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        min_relevance: float | None = None,
        filters: RagFilters | None = None,
        collections: str | Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Exchange[RagSearchAnswer]:
        """Return the chunks that fit a question, by meaning and by words, best first."""
        body = given(
            {
                "query": query,
                "topK": top_k,
                "min_relevance": min_relevance,
                "filters": filters,
                "collections": _listed(collections),
                "where": where,
            }
        )
        return ask(read("/api/rag/search", body))

    @operation
    def retrieve(
        self,
        query: str,
        context_key: str,
        *,
        max_chunks: int | None = None,
        min_relevance: float | None = None,
        collections: str | Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Exchange[RagContext]:
        """Return the context of a question, with `meets_threshold`: whether it is good enough to answer from."""
        body = given(
            {
                "query": query,
                "context_key": context_key,
                "max_chunks": max_chunks,
                "min_relevance": min_relevance,
                "collections": _listed(collections),
                "where": where,
            }
        )
        return ask(read("/api/rag/retrieve", body))

    @listing
    def ingested_documents(
        self,
        *,
        collection: str | None = None,
        source: str | None = None,
        path: str | None = None,
        tag: str | None = None,
        page_size: int = 1000,
    ) -> Listing[RagDocument]:
        """Iterate over what was ingested."""
        return paged(
            lambda cursor: get(
                "/api/rag/documents",
                collection=collection,
                source=source,
                path=path,
                tag=tag,
                limit=page_size,
                cursor=cursor,
            ),
            "documents",
            "nextCursor",
        )

    @operation
    def delete_ingested_document(
        self, document_id: str, *, collection: str | None = None
    ) -> Exchange[RagDeleteDocumentAnswer]:
        """Delete what was ingested, with its chunks."""
        return ask(change("DELETE", at("/api/rag/documents/{}", document_id), collection=collection))

    @operation
    def rag_metrics(self) -> Exchange[RagMetricsAnswer]:
        """Count documents and chunks, and name the embedding model."""
        return ask(get("/api/rag/metrics"))

    @operation
    def chat(self, message: str | None = None, **asked: Unpack[Chat]) -> Exchange[ChatAnswer]:
        """Get an answer of the chat model, with `use_rag` one that rests on what a search found. It is sent once: an
        answer that is lost was remembered in its conversation."""
        return ask(_chat(message, asked, stream=False))

    @streamed
    def stream_chat(self, message: str | None = None, **asked: Unpack[Chat]) -> Opening[ChatEvent]:
        """Iterate over the pieces of an answer, `{"delta": …}`, and at last `{"done": True, …}` with all that `chat`
        returns. What fails on the way is raised."""
        return Opening(_chat(message, asked, stream=True), lambda _: EventDecoder(_event))

    @operation
    def conversation(self, conversation_id: str, *, owner: str | None = None) -> Exchange[GetConversationAnswer]:
        """Return what was said in a conversation of one's own, or in a shared one of another `owner`."""
        return ask(get(at("/api/chat/{}", conversation_id), owner=owner))

    @operation
    def delete_conversation(
        self, conversation_id: str, *, owner: str | None = None
    ) -> Exchange[DeleteConversationAnswer]:
        """Forget a conversation."""
        return ask(change("DELETE", at("/api/chat/{}", conversation_id), owner=owner))


def _chat(message: str | None, asked: Chat, *, stream: bool) -> Request:
    body = {_WIRE.get(name, name): value for name, value in asked.items()}
    if "collections" in body:
        body["collections"] = _listed(asked["collections"])
    body |= given({"message": message, "stream": True if stream else None})
    return change("POST", "/api/chat", body)


def _listed(collections: str | Sequence[str] | None) -> Sequence[str] | None:
    return [collections] if isinstance(collections, str) else collections


def _event(event: Any) -> ChatEvent:
    told: ChatEvent = event
    return told
