"""Documents and chunks as the contract *documents* names them ("V3 Contract Snapshot - RAG & Ingestion API")."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.contracts.search import CollectionsReceipt
from schemas.records import Metadata

MAX_TOP_K, DEFAULT_TOP_K = 20, 5


@dataclass(frozen=True, slots=True)
class RagDocument:
    """A document to ingest; `hash` is the caller's hash of its content, if it has one."""

    source: str
    path: str
    title: str
    text: str
    hash: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upserted:
    """The outcome of an ingestion; `status` is created, updated or unchanged."""

    status: str
    document_id: str
    chunk_count: int


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions that chunks must meet to be found; of `tags`, one is enough."""

    source: str | None = None
    tags: tuple[str, ...] = ()
    path: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class SimilarChunk:
    """A chunk that was found; it is stored in `collection` as `chunk_id`.

    `score` is cosine similarity in [0, 1]. `relevance`, in [0, 1] too, means the same for all questions, as far as the
    model is calibrated; None where it cannot be told.
    """

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
    relevance: float | None = None


@dataclass(frozen=True, slots=True)
class SimilarChunks:
    """The chunks nearest to a text, best first, and which collections were asked."""

    chunks: list[SimilarChunk]
    receipt: CollectionsReceipt


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """The description of an ingested document. Times are ISO 8601 in UTC.

    `kind`, `pages` and `size_bytes` are those of the file; each is None where it is not known.
    """

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
    kind: str | None = None
    pages: int | None = None
    size_bytes: int | None = None
    has_original: bool = False


@dataclass(frozen=True, slots=True)
class KnownChunk:
    """A chunk of an ingested document, with its place there as far as it is known. Pages count from 1."""

    id: str
    text: str
    chunk_index: int
    section: str | None = None
    page: int | None = None
    last_page: int | None = None
    sheet: str | None = None
    slide: int | None = None
    start_line: int | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """A deleted document: where it was, and how many chunks it had."""

    collection: str
    chunks: int


@dataclass(frozen=True, slots=True)
class CollectionCounts:
    """Counts of one collection: `documents` are those that are listed, `chunks` what they are stored as."""

    name: str
    documents: int
    chunks: int


@dataclass(frozen=True, slots=True)
class StoreMetrics:
    """Figures of the store; `dimension` is None until the embedding service has answered once."""

    collections: list[CollectionCounts]
    provider: str
    model: str
    dimension: int | None
