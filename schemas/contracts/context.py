"""Questions to the context tools, texts for them, and their answers (contract *context*)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from schemas.contracts.search import CollectionsReceipt
from schemas.records import Metadata
from schemas.where import EVERYTHING, Where

STORAGE, VECTOR_STORE, TEXT_SEARCH = "storage", "vector_store", "text_search"
"""Parts of a health report that every service has; models are the others."""

TimeRange = Literal["1h", "24h", "7d", "30d"]
"""How far back statistics of searches reach."""


@dataclass(frozen=True, slots=True)
class ContextQuery:
    """A search in the collections named (names and `prefix*`), by default in all text collections.

    `category`, `session_id`, `content_type` and `game` filter the results where they are given, as `where` does, and
    `min_relevance` those found by vector. `agent` is the name under which the search is counted.
    """

    query: str
    limit: int
    collections: tuple[str, ...] | None = None
    category: str | None = None
    session_id: str | None = None
    content_type: str | None = None
    game: str | None = None
    agent: str | None = None
    min_relevance: float = 0.0
    where: Where = EVERYTHING


@dataclass(frozen=True, slots=True)
class ContextDocument:
    """A text to index. `agent` counts where the metadata names none; the other fields replace those of the metadata."""

    content: str
    source: str | None = None
    session_id: str | None = None
    content_type: str | None = None
    agent: str | None = None
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexedText:
    """A text that was stored as `chunk_ids`. The rows of idempotency keys hold these fields by name."""

    document_id: str
    chunk_ids: list[str]
    latency_ms: float


@dataclass(frozen=True, slots=True)
class ContextItem:
    """A stored chunk, whoever stored it. `timestamp` is ISO 8601 in UTC, 1970 for chunks that were not ingested here.
    `relevance` is None for what words found."""

    content: str
    score: float
    source: str
    timestamp: str
    metadata: Metadata
    document_id: str
    chunk_index: int
    collection: str
    chunk_id: str
    relevance: float | None = None


@dataclass(frozen=True, slots=True)
class ContextAnswer:
    """The results of a search, and the level of the fallback chain that found them. `total_indexed` counts all chunks;
    `receipt` is None where no collection was asked."""

    results: Sequence[ContextItem]
    latency_ms: float
    fallback: bool
    fallback_level: int
    circuit_breaker_open: bool
    total_indexed: int
    receipt: CollectionsReceipt | None


@dataclass(frozen=True, slots=True)
class PartHealth:
    """The health of one part. `error` is the sentence that says what is wrong, None when nothing is."""

    latency_ms: float
    error: str | None = None

    @property
    def healthy(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class ContextHealthReport:
    """The health of the parts that searches need, by name. `indexed_documents` is None where they cannot be counted;
    `timestamp` is ISO 8601 in UTC."""

    status: str
    parts: Mapping[str, PartHealth]
    latency_ms: float
    indexed_documents: int | None
    circuit_breaker_open: bool
    timestamp: str


@dataclass(frozen=True, slots=True)
class ContextStats:
    """The size of the store, and statistics of the searches within `time_range`. Latencies are in milliseconds, rates
    in [0, 1]."""

    time_range: TimeRange
    total_documents: int
    total_queries: int
    average_latency_ms: float
    p95_latency_ms: float
    p99_latency_ms: float
    cache_hit_rate: float
    fallback_rate: float
    queries_by_agent: Mapping[str, int]
