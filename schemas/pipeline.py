"""What the retrieval pipeline takes and gives, in the words of seed 001 ("RAG Pipeline Contract"), and its errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from schemas.errors import DiskFloorError, InvalidInputError, UnavailableError
from schemas.records import Metadata
from schemas.searched import CollectionsReceipt

MAX_CHUNKS = 100


class InvalidDocumentError(InvalidInputError):
    """A document lacks what every document must have, or cannot be stored as it is; it is left out."""

    code = "invalid_document"


class EmbeddingFailureError(UnavailableError):
    """The embedding connection gives no vectors now; what is stored stays as it was."""

    code = "embedding_unavailable"


class VectorDBUnavailableError(UnavailableError):
    """The store does not answer."""

    code = "vector_db_unavailable"


class VectorDBWriteError(UnavailableError):
    """The store did not take a document: the job ends, what came before is stored, and this document is as it was.
    `details` say how far it came."""

    code = "vector_db_write_failed"


class VectorDBFullError(DiskFloorError, VectorDBWriteError):
    """The store did not take a document for want of disk space: writing again is no use before there is some."""


@dataclass(frozen=True, slots=True)
class RuleDocument:
    """A document to ingest. `document_id` None: it follows from `filename`; one that is no UUID is no good, and only
    this document is refused. `content` is Markdown."""

    filename: str
    content: str
    metadata: Metadata
    document_id: Any = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a document was left out; `index` counts from 0."""

    index: int
    filename: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class IngestionResult:
    """`errors` are the filenames that failed, `failures` say why; `embedding_count` are vectors made by this job."""

    job_id: UUID
    documents_processed: int
    documents_failed: int
    embedding_count: int
    errors: list[str]
    warnings: list[str]
    duration_seconds: float
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """`metadata` has `source`, `doc_type`, `last_update_date` and `section` whoever stored the chunk;
    `relevance_score` is cosine similarity in [0, 1]; `position_in_doc` counts from 0."""

    chunk_id: UUID
    document_id: UUID
    text: str
    metadata: Metadata
    relevance_score: float
    position_in_doc: int


@dataclass(frozen=True, slots=True)
class RAGContext:
    """`document_chunks` by relevance, best first; none, and `meets_threshold` False, when none is relevant enough.
    `receipt` says which collections were asked."""

    context_id: UUID
    query_id: UUID
    document_chunks: list[DocumentChunk]
    relevance_scores: list[float]
    total_chunks: int
    avg_relevance: float
    meets_threshold: bool
    receipt: CollectionsReceipt


@dataclass(frozen=True, slots=True)
class RetrieveRequest:
    """`max_chunks` and `min_relevance` None leave it to the settings. `collections` are names and `prefix*`, None all
    text collections; `context_key` is "{channel_id}:{user_id}", and tells the answers of one conversation from
    another's."""

    query: str
    context_key: str
    max_chunks: int | None = None
    min_relevance: float | None = None
    collections: tuple[str, ...] | None = None
    where: dict[str, Any] | None = None
