"""Answers of what RAG is made of: ingestion, retrieval and chat.

Made from openapi.yaml by `clients/python/wire_types.py`: change that, not this."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from rag_wrapper_client.wire.shared import CollectionsAsked, Relevance, SearchReceipt


class ChatAnswer(TypedDict):
    status: Literal["success"]
    finishReason: FinishReason
    thoughts: NotRequired[str]
    data: ChatAnswerData
    ragUsed: bool
    ragSources: list[ChatSource]
    citations: NotRequired[list[Citation]]
    relevance: NotRequired[float | None]
    receipt: NotRequired[SearchReceipt]
    warnings: NotRequired[list[str]]


class ChatAnswerData(TypedDict):
    message: str
    response: str
    conversationId: str
    model: str


class ChatSource(TypedDict):
    section: NotRequired[Any]
    page: NotRequired[Any]
    last_page: NotRequired[Any]
    sheet: NotRequired[Any]
    slide: NotRequired[Any]
    start_line: NotRequired[Any]
    text: str
    score: float
    relevance: float | None
    source: str
    title: str
    documentId: str
    collection: str


class Citation(TypedDict):
    """A number that an answer cites."""

    section: NotRequired[Any]
    page: NotRequired[Any]
    last_page: NotRequired[Any]
    sheet: NotRequired[Any]
    slide: NotRequired[Any]
    start_line: NotRequired[Any]
    number: int
    collection: str | None
    id: str | None
    valid: bool
    source: NotRequired[str]
    title: NotRequired[str]


class CollectionsReceipt(TypedDict):
    collections: CollectionsAsked
    collections_not_named: NotRequired[int]


class DeleteConversationAnswer(TypedDict):
    status: Literal["deleted"]
    conversationId: str
    warnings: NotRequired[list[str]]


class GetConversationAnswer(TypedDict):
    conversationId: str
    owner: str
    shared: bool
    messages: list[GetConversationAnswerMessage]
    warnings: NotRequired[list[str]]


class GetConversationAnswerMessage(TypedDict):
    role: Literal["user", "assistant"]
    content: str
    createdAt: str
    ragUsed: NotRequired[bool]
    ragSources: NotRequired[list[ChatSource]]
    finishReason: NotRequired[FinishReason]


class IngestionResult(TypedDict):
    job_id: str
    documents_processed: int
    documents_failed: int
    embedding_count: int
    errors: list[str]
    warnings: list[str]
    duration_seconds: float
    failures: list[IngestionResultFailure]


class IngestionResultFailure(TypedDict):
    index: int
    filename: str
    code: str
    message: str


class RagChunk(TypedDict):
    text: str
    score: float
    relevance: Relevance
    metadata: RagChunkMetadata


class RagChunkMetadata(TypedDict):
    """Includes the metadata that the document was given."""

    documentId: str
    source: str
    path: str
    title: str
    chunkIndex: int
    tags: list[str]
    collection: str
    chunkId: str


class RagContext(TypedDict):
    context_id: str
    query_id: str
    document_chunks: list[RagContextDocumentChunk]
    relevance_scores: list[float]
    total_chunks: int
    avg_relevance: float
    meets_threshold: bool
    receipt: CollectionsReceipt
    warnings: NotRequired[list[str]]


class RagContextDocumentChunk(TypedDict):
    chunk_id: str
    document_id: str
    text: str
    metadata: RagContextDocumentChunkMetadata
    relevance_score: float
    position_in_doc: int


class RagContextDocumentChunkMetadata(TypedDict):
    source: str
    doc_type: str
    doc_type_given: NotRequired[Any]
    collection: str
    doc_id: str
    chunk_id: str
    last_update_date: str
    section: str


class RagDeleteDocumentAnswer(TypedDict):
    status: Literal["deleted"]
    documentId: str
    chunkCount: int
    collection: str
    warnings: NotRequired[list[str]]


class RagDocument(TypedDict):
    documentId: str
    collection: str
    source: str
    path: str
    title: str
    hash: str | None
    tags: list[str]
    chunkCount: int
    embeddingModel: str | None
    createdAt: str | None
    updatedAt: str | None


class RagDocumentsAnswer(TypedDict):
    documents: list[RagDocument]
    count: int
    total: int
    nextCursor: str | None
    warnings: NotRequired[list[str]]


class RagFilters(TypedDict):
    """`source` must match, and so must one of the `tags`."""

    source: NotRequired[str | None]
    tags: NotRequired[Tags]


class RagIngestAnswer(TypedDict):
    status: Literal["created", "updated", "unchanged"]
    documentId: str
    chunkCount: int


class RagMetricsAnswer(TypedDict):
    documents: int
    chunks: int
    collections: list[RagMetricsAnswerCollection]
    embedding: RagMetricsAnswerEmbedding
    warnings: NotRequired[list[str]]


class RagMetricsAnswerCollection(TypedDict):
    name: str
    documents: int
    chunks: int


class RagMetricsAnswerEmbedding(TypedDict):
    provider: str
    model: str
    dimension: int | None


class RagSearchAnswer(TypedDict):
    query: str
    resultCount: int
    results: list[RagChunk]
    receipt: CollectionsReceipt
    warnings: NotRequired[list[str]]


FinishReason: TypeAlias = Literal["stop", "length", "content_filter"]


Tags: TypeAlias = list[str] | None
