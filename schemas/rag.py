"""Documents and chunks in the words of seed 002 ("V3 Contract Snapshot - RAG & Ingestion API")."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.records import Metadata
from schemas.searched import CollectionsReceipt

MAX_TOP_K, DEFAULT_TOP_K = 20, 5


@dataclass(frozen=True, slots=True)
class RagDocument:
    """A document to ingest. `hash` is what the caller says of its content, None when nothing."""

    source: str
    path: str
    title: str
    text: str
    hash: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upserted:
    """`status` is created, updated or unchanged."""

    status: str
    document_id: str
    chunk_count: int


@dataclass(frozen=True, slots=True)
class Filters:
    """`tags`: one of them is enough."""

    source: str | None = None
    tags: tuple[str, ...] = ()
    path: str | None = None


@dataclass(frozen=True, slots=True)
class SimilarChunk:
    """`score` is cosine similarity in [0, 1]; the chunk is stored in `collection` under `chunk_id`."""

    text: str
    score: float
    document_id: str
    collection: str
    chunk_id: str
    source: str
    path: str
    title: str
    chunk_index: int
    tags: list[str]
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class SimilarChunks:
    """The chunks nearest to a text, best first, and which collections were asked."""

    chunks: list[SimilarChunk]
    receipt: CollectionsReceipt


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """What is known of an ingested document. Times are ISO 8601 in UTC."""

    document_id: str
    collection: str
    source: str
    path: str
    title: str
    hash: str | None
    tags: list[str]
    chunk_count: int
    embedding_model: str | None
    created_at: str | None
    updated_at: str | None


@dataclass(frozen=True, slots=True)
class Deleted:
    """A document that is gone: where it was, and how many chunks it had."""

    collection: str
    chunks: int


@dataclass(frozen=True, slots=True)
class CollectionCounts:
    """`chunks` are all stored documents of the collection; `documents` those that were ingested as text."""

    name: str
    documents: int
    chunks: int


@dataclass(frozen=True, slots=True)
class StoreMetrics:
    """`dimension` is None until an answer of the embedding service told it."""

    collections: list[CollectionCounts]
    provider: str
    model: str
    dimension: int | None
