"""The answers of the context tools (contract *context*)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.contracts.search import CollectionsReceipt
from schemas.records import Metadata


@dataclass(frozen=True, slots=True)
class IndexedText:
    """A text that was stored as `chunk_ids`."""

    document_id: str
    chunk_ids: Sequence[str]
    latency_ms: float


@dataclass(frozen=True, slots=True)
class ContextItem:
    """A stored chunk, whoever stored it. `timestamp` is ISO 8601 in UTC, 1970 for chunks that were not ingested
    here."""

    content: str
    score: float
    source: str
    timestamp: str
    metadata: Metadata
    document_id: str
    chunk_index: int
    collection: str
    chunk_id: str


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

    time_range: str
    total_documents: int
    total_queries: int
    average_latency_ms: float
    p95_latency_ms: float
    p99_latency_ms: float
    cache_hit_rate: float
    fallback_rate: float
    queries_by_agent: Mapping[str, int]
