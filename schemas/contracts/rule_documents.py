"""Values and errors of ingestion and retrieval by rules (contract *rules*, "RAG Pipeline Contract")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from schemas import shared_database
from schemas.contracts.search import CollectionsReceipt
from schemas.errors import DiskFloorError, InvalidInputError, UnavailableError
from schemas.records import Metadata
from schemas.where import EVERYTHING, Where

MAX_CHUNKS = 100


class InvalidDocumentError(InvalidInputError):
    """A document lacks what every document must have, or cannot be stored as it is; it is left out."""

    code = "invalid_document"


class EmbeddingFailureError(UnavailableError):
    """The embedding connection returns no vectors now; stored documents stay as they were."""

    code = "embedding_unavailable"


class VectorDBUnavailableError(UnavailableError):
    """The store does not answer."""

    code = "vector_db_unavailable"


class VectorDBWriteError(UnavailableError):
    """The store did not take a document: the job ends, earlier documents stay stored, this one is as it was.

    `details` say how far the job came.
    """

    code = "vector_db_write_failed"


class VectorDBFullError(DiskFloorError, VectorDBWriteError):
    """The store did not take a document because the disk is full; retrying is useless until there is space."""

    retry_after_seconds = None


@dataclass(frozen=True, slots=True)
class RuleDocument:
    """A document to ingest; `content` is Markdown.

    A `document_id` of None is derived from `filename`. One that is not a UUID makes only this document be refused.
    """

    filename: str
    content: str
    metadata: Metadata
    document_id: Any = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that was left out, with the reason; `index` counts from 0."""

    index: int
    filename: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class IngestionResult:
    """The outcome of a job. `errors` are the filenames that failed, and `failures` say why; `embedding_count` is the
    number of vectors made by this job."""

    job_id: UUID
    documents_processed: int
    documents_failed: int
    embedding_count: int
    errors: list[str]
    warnings: list[str]
    duration_seconds: float
    failures: list[Failure] = field(default_factory=list)

    @property
    def is_final(self) -> bool:
        """False when a document failed for a reason that may be gone when the batch is sent again."""
        return all(failure.code != EmbeddingFailureError.code for failure in self.failures)

    @classmethod
    def of_fields(cls, *, job_id: str, failures: list[dict[str, Any]], **others: Any) -> IngestionResult:
        """Return the result that has these fields, as an idempotency key keeps them."""
        failed = [shared_database.of_fields(Failure, each) for each in failures]
        return shared_database.of_fields(cls, {**others, "job_id": UUID(job_id), "failures": failed})


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """A retrieved chunk.

    `metadata` has `source`, `doc_type`, `last_update_date` and `section`, whoever stored the chunk. `relevance_score`
    is the relevance to the question in [0, 1] (`EmbeddingProvider.relevance`); `position_in_doc` counts from 0.
    """

    chunk_id: UUID
    document_id: UUID
    text: str
    metadata: Metadata
    relevance_score: float
    position_in_doc: int


@dataclass(frozen=True, slots=True)
class RAGContext:
    """The answer to a question: `document_chunks` by relevance, best first.

    When no chunk is relevant enough there are none, and `meets_threshold` is False. `receipt` says which collections
    were asked.
    """

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
    """One question.

    `max_chunks` and `min_relevance` of None are left to the settings, which leave the latter to the embedding model
    unless they are set. `collections` are names and `prefix*`; None means all text collections. `context_key` is
    "{channel_id}:{user_id}" and separates the answers of one conversation from those of another.
    """

    query: str
    context_key: str
    max_chunks: int | None = None
    min_relevance: float | None = None
    collections: tuple[str, ...] | None = None
    where: Where = EVERYTHING
