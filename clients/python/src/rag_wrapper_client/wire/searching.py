"""Answers of searches, collects and context tools.

Made from openapi.yaml by `clients/python/wire_types.py`: change that, not this."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from rag_wrapper_client.wire.shared import Relevance, SearchReceipt


class CollectAnswer(TypedDict):
    result: Literal["match", "partial", "none"]
    data: CollectedResult | list[CollectedResult] | None
    receipt: CollectReceipt
    warnings: NotRequired[list[str]]


class CollectReceipt(TypedDict):
    strategy: Literal["first message (raw query)", "follow-up (contextualized topic)"]
    query_text: str
    embeddings: CollectReceiptEmbeddings
    collections: list[CollectReceiptCollection]


class CollectReceiptCollection(TypedDict):
    service: str
    collection: str
    status: Literal["match", "partial", "none", "failed"]
    distance: float | None
    latency_ms: float
    error: NotRequired[str]


class CollectReceiptEmbeddings(TypedDict):
    generated: int
    reused: int


class CollectedResult(TypedDict):
    result_type: Literal["match", "partial"]
    service: str
    collection: str
    documents: list[CollectedResultDocument]
    distance: float
    description: str | None


class CollectedResultDocument(TypedDict):
    id: str
    text: str
    title: str | None
    source: str | None
    metadata: dict[str, Any]
    collection: str


class ContextFound(TypedDict):
    results: list[ContextFoundResult]
    latency: float
    fallback: bool
    fallbackLevel: int
    circuitBreakerOpen: bool
    totalIndexed: int
    receipt: NotRequired[ContextFoundReceipt]
    warnings: NotRequired[list[str]]


class ContextFoundReceipt(TypedDict):
    """Absent when no collection was asked."""

    collections: dict[str, ContextFoundReceiptCollection]
    collections_not_named: NotRequired[int]


class ContextFoundReceiptCollection(TypedDict):
    status: Literal["asked", "left_out"]
    reason: NotRequired[str]


class ContextFoundResult(TypedDict):
    content: str
    score: float
    relevance: NotRequired[float | None]
    source: str
    timestamp: str
    metadata: ContextFoundResultMetadata


class ContextFoundResultMetadata(TypedDict):
    agent: NotRequired[str]
    tags: NotRequired[list[str]]
    category: NotRequired[str]
    game: NotRequired[str]


class ContextHealth(TypedDict):
    healthy: bool
    status: Literal["healthy", "degraded", "unhealthy"]
    storage: ContextPart
    vectorStore: ContextPart
    embedding: ContextPart
    chat: NotRequired[ContextPart]
    rerank: NotRequired[ContextPart]
    textSearch: ContextPart
    latency: float
    indexedDocuments: int | None
    circuitBreakerOpen: bool
    timestamp: str
    warnings: NotRequired[list[str]]


class ContextIndexed(TypedDict):
    success: Literal[True]
    chunksIndexed: int
    vectorIds: list[str]
    latencyMs: float
    documentId: str
    warnings: NotRequired[list[str]]


class ContextPart(TypedDict):
    healthy: bool
    latencyMs: float
    error: NotRequired[str]


class ContextStats(TypedDict):
    timeRange: Literal["1h", "24h", "7d", "30d"]
    totalDocuments: int
    totalQueries: int
    avgLatency: float
    p95Latency: float
    p99Latency: float
    cacheHitRate: float
    fallbackRate: float
    queriesByAgent: dict[str, int]
    warnings: NotRequired[list[str]]


class ListToolsAnswer(TypedDict):
    tools: list[ListToolsAnswerTool]
    warnings: NotRequired[list[str]]


class ListToolsAnswerTool(TypedDict):
    name: str
    description: str
    inputSchema: dict[str, Any]
    outputSchema: dict[str, Any]
    annotations: ListToolsAnswerToolAnnotations


class ListToolsAnswerToolAnnotations(TypedDict):
    readOnlyHint: bool


class OraclePlace(TypedDict):
    rank: int
    score: float


class RerankAnswer(TypedDict):
    reranked: list[RerankAnswerRerankedItem]
    connection: str | None
    warnings: NotRequired[list[str]]


class RerankAnswerRerankedItem(TypedDict):
    id: str
    score: float
    original_rank: int


class SearchAnswer(TypedDict):
    results: list[SearchResult]
    receipt: SearchReceipt
    groups: NotRequired[list[SearchedGroup]]
    explanations: NotRequired[list[SearchExplanation]]
    warnings: NotRequired[list[str]]


class SearchExplanation(TypedDict):
    doc_id: str
    collection: str | None
    rank: int | None
    rrf_score: float | None
    reason: str
    oracles: dict[str, OraclePlace | SearchExplanationOracle1]


class SearchExplanationOracle1(TypedDict):
    reason: str


class SearchResult(TypedDict):
    doc_id: str
    collection: str
    chunk_id: str
    chunk_ids: NotRequired[list[str]]
    content: str
    score: float
    relevance: Relevance
    rrf_score: float
    rerank_score: NotRequired[float]
    sources: list[str]
    provenance: dict[str, OraclePlace]
    metadata: dict[str, Any]


class SearchedGroup(TypedDict):
    collection: str
    key: str | float | bool | list[str | float | bool] | None
    rank: int
    documents: list[SearchedGroupDocument]
    total: int
    complete: bool
    text: NotRequired[str]


class SearchedGroupDocument(TypedDict):
    id: str
    text: str
    metadata: dict[str, Any]
    hit: bool
    place: int
