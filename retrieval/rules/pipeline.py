"""The retrieval pipeline of the contract *rules*: it takes in documents as whole chunks and finds the relevant ones."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

import structlog

from providers.embeddings.base import EmbeddingProvider
from retrieval.chunking import StructuredText, opening_heading
from retrieval.failures import write_error
from retrieval.ingest import profiles
from retrieval.ingest.collection_writer import CollectionWriter, batches
from retrieval.ingest.drafts import FIRST_CHUNKS, INTERNAL, SourceDocument
from retrieval.ingest.identity import document_id
from retrieval.ingest.ingestion import ingest_document
from retrieval.reading.front_matter import split_front_matter
from retrieval.search.engine import SearchEngine, cosine_of, search_by_meaning
from retrieval.text_collections import TextCollections
from schemas.bounds import MAX_PAGE
from schemas.contracts.rule_documents import (
    DocumentChunk,
    EmbeddingFailureError,
    Failure,
    IngestionResult,
    InvalidDocumentError,
    RAGContext,
    RetrieveRequest,
    RuleDocument,
)
from schemas.contracts.search import FusedResult, SearchRequest, check_query
from schemas.errors import AccessError, ConflictError, InvalidInputError, RagError
from schemas.metadata import check_metadata, set_apart
from schemas.settings import RetrievalSettings
from schemas.where import In

log = structlog.get_logger(__name__)

UNCALIBRATED_MIN_RELEVANCE = 0.6
"""The contract's threshold, which it means for the cosines of the models of its time."""
UNKNOWN_DATE = "1970-01-01"
"""The `last_update_date` of chunks that have no date at all."""
_IDS = uuid.UUID("0d0f3f5e-6d0a-5c53-a6d4-5b1d7b0c9a11")  # must never change: UUIDs are derived from it


class RAGPipeline:
    """Retrieval and ingestion of rule documents for every interface, usable by several threads."""

    def __init__(self, texts: TextCollections, search: SearchEngine, settings: RetrievalSettings) -> None:
        self._texts = texts
        self._search = search
        self._settings = settings

    def retrieve(self, request: RetrieveRequest) -> RAGContext:
        """Return the chunks that are relevant to a question, each judged by itself, best first.

        The same question in the same conversation has the same answer, `context_id` included, until the answer is too
        old or a collection changes. An answer that misses a collection is not kept. Raises InvalidQueryError and other
        InvalidInputErrors, CollectionNotFoundError for a collection that the request names in full,
        EmbeddingFailureError (also after `retrieve_seconds`), and VectorDBUnavailableError.
        """
        check_query(request.query)
        asked = self._wanted(request)
        answer = search_by_meaning(self._search, asked)
        chunks = sorted(
            (_chunk(each, self._settings) for each in answer.results), key=lambda each: -each.relevance_score
        )
        scores = [chunk.relevance_score for chunk in chunks]
        average = sum(scores) / len(scores) if scores else 0.0
        return RAGContext(
            context_id=uuid.uuid5(_IDS, f"context {answer.id}"),
            query_id=uuid.uuid5(_IDS, f"query {answer.id}"),
            document_chunks=chunks,
            relevance_scores=scores,
            total_chunks=len(chunks),
            avg_relevance=average,
            meets_threshold=bool(chunks) and average >= (asked.min_relevance or 0.0),
            receipt=answer.receipt.collections,
        )

    def target(self, collection: str | None) -> str:
        """Return the name of the collection that documents are ingested to."""
        return self._settings.rules_collection if collection is None else collection

    def ingest(
        self,
        documents: Sequence[RuleDocument],
        *,
        collection: str | None = None,
        replace_missing: bool = False,
    ) -> IngestionResult:
        """Bring documents up to date, and with `replace_missing` delete all others of the collection.

        A document that is invalid or cannot be embedded is named in the result and keeps its stored version. Raises
        VectorDBWriteError as soon as the store fails, ConflictError when the collection's documents were embedded by
        another model, and AccessError as soon as the caller may not write any more. The details of these errors tell
        how far the batch had come.
        """
        began = time.perf_counter()
        name = self.target(collection)
        self._texts.embedding(name)  # where it cannot be opened, the documents are not at fault, nor is the store
        job_id = uuid.uuid4()
        failures: list[Failure] = []
        warnings: list[str] = []
        processed = 0
        try:
            writer = self._texts.writer(name)
            for index, document in enumerate(documents):
                try:
                    done = ingest_document(writer, to_source(document, self._settings, writer.embedding))
                except (InvalidInputError, EmbeddingFailureError) as error:
                    # Without the sentence, which quotes what the document says.
                    log.warning("document left out", filename=document.filename, code=error.code, job=str(job_id))
                    failures.append(Failure(index, document.filename, error.code, error.message))
                else:
                    processed += 1
                    warnings += [f"{document.filename}: {sentence}" for sentence in done.warnings]
                    if done.warnings:
                        log.warning("ambiguous document", filename=document.filename, job=str(job_id))
            if replace_missing:
                _delete_others(writer, documents)
        except RagError as error:
            told = {
                "job_id": str(job_id),
                "documents_processed": processed,
                "documents_failed": len(failures),
                "index": processed + len(failures),
            }
            if isinstance(error, AccessError | ConflictError):
                error.details |= told
                raise
            raise write_error(error, "The store did not take the documents", **told) from error
        return IngestionResult(
            job_id=job_id,
            documents_processed=processed,
            documents_failed=len(failures),
            embedding_count=writer.embedded,
            errors=[failure.filename for failure in failures],
            warnings=warnings,
            duration_seconds=round(time.perf_counter() - began, 3),
            failures=failures,
        )

    def _wanted(self, request: RetrieveRequest) -> SearchRequest:
        settings, least = self._settings, request.min_relevance
        least = settings.retrieve_min_relevance if least is None else least
        least = self._texts.least_relevance(least, uncalibrated=UNCALIBRATED_MIN_RELEVANCE)
        return SearchRequest(
            request.query,
            limit=settings.retrieve_max_chunks if request.max_chunks is None else request.max_chunks,
            collections=request.collections,
            where=request.where,
            min_relevance=least,
            cached_for=f"rules {request.context_key}",
        )


def _delete_others(writer: CollectionWriter, documents: Sequence[RuleDocument]) -> None:
    named, filenames = set(), set()
    for document in documents:
        try:
            named.add(id_of(document))
        except InvalidDocumentError:
            filenames.add(document.filename)  # only its file name tells which stored document it is
    stored = writer.stored(FIRST_CHUNKS).values()
    gone = {each.metadata["document_id"] for each in stored if each.metadata.get("path") not in filenames} - named
    for others in batches(sorted(gone), MAX_PAGE):
        writer.delete(In("document_id", tuple(others)))


def _chunk(found: FusedResult, settings: RetrievalSettings) -> DocumentChunk:
    metadata = {name: value for name, value in found.metadata.items() if name not in INTERNAL}
    date = found.metadata.get("updated_at")
    said, section = metadata.get("source"), metadata.get("section")
    contract = {
        "source": said if isinstance(said, str) and said else found.collection,
        "doc_type": metadata.get("doc_type"),
        "last_update_date": metadata.get("last_update_date"),
        "section": section if isinstance(section, str) else "",
        "collection": found.collection,
        "doc_id": found.doc_id,
        "chunk_id": found.chunk_id,
    }
    if contract["doc_type"] not in settings.doc_types:
        if contract["doc_type"]:
            contract["doc_type_given"] = contract["doc_type"]
        contract["doc_type"] = settings.other_doc_type
    if not is_iso_date(contract["last_update_date"]):
        contract["last_update_date"] = str(date)[:10] if is_iso_date(date) else UNKNOWN_DATE
    position = found.metadata.get("chunk_index")
    return DocumentChunk(
        chunk_id=_uuid(found.chunk_id),
        document_id=_uuid(found.doc_id),
        text=found.content,
        metadata={**metadata, **contract},
        relevance_score=cosine_of(found) if found.relevance is None else found.relevance,
        position_in_doc=position if isinstance(position, int) else 0,
    )


def _uuid(name: str) -> uuid.UUID:
    """Return the id itself where it is a UUID, else a UUID derived from it."""
    try:
        return uuid.UUID(name)
    except ValueError:
        return uuid.uuid5(_IDS, name)


REQUIRED = ("source", "doc_type", "last_update_date")
ALIAS = "document_type"


def id_of(document: RuleDocument) -> str:
    """Return the id of a document, derived from its file name where it gives none. Raises InvalidDocumentError when the
    id it gives is not a UUID."""
    given = document.document_id
    if given is None:
        return document_id(document.filename)
    try:
        return str(given if isinstance(given, UUID) else UUID(given))
    except (ValueError, AttributeError, TypeError):
        raise InvalidDocumentError("document_id must be a UUID", field="document_id") from None


def to_source(document: RuleDocument, settings: RetrievalSettings, embedding: EmbeddingProvider) -> SourceDocument:
    """Return the document as ingestion takes it. Raises InvalidDocumentError, naming the field, when it cannot be
    stored."""
    if not document.content.strip():
        raise InvalidDocumentError("content is blank", field="content")
    metadata = _checked(document.metadata, settings)
    markdown = StructuredText(document.content)
    section = metadata.get("section")
    title = split_front_matter(document.content).title or opening_heading(markdown)
    split = profiles.whole(
        embedding, settings.whole_max_tokens, section if isinstance(section, str) else "", settings.whole_levels
    )
    return SourceDocument(
        id=id_of(document),
        title=title or document.filename,
        text=document.content,
        metadata=set_apart(metadata, {"path": document.filename}),
        split=lambda _: split(markdown),
        title_is_file_name=not title,
        kind="markdown",
    )


def _checked(given: dict[str, Any], settings: RetrievalSettings) -> dict[str, Any]:
    check_metadata(given)
    metadata = {name: value for name, value in given.items() if name != ALIAS}
    if metadata.get("doc_type") is None:
        metadata["doc_type"] = given.get(ALIAS)
    for name in REQUIRED:
        value = metadata.get(name)
        if value is None:
            raise InvalidDocumentError(f"metadata.{name} is required", field=f"metadata.{name}")
        if not isinstance(value, str) or not value.strip():
            raise InvalidDocumentError(f"metadata.{name} must be a text that is not blank", field=f"metadata.{name}")
    if metadata["doc_type"] not in settings.doc_types:
        raise InvalidDocumentError(
            f"metadata.doc_type must be one of {', '.join(settings.doc_types)}, not '{metadata['doc_type']}'",
            field="metadata.doc_type",
            allowed=list(settings.doc_types),
        )
    if not is_iso_date(metadata["last_update_date"]):
        raise InvalidDocumentError(
            f"metadata.last_update_date must be an ISO date (2026-01-31), not '{metadata['last_update_date']}'",
            field="metadata.last_update_date",
        )
    return metadata


def is_iso_date(text: object) -> bool:
    """Return whether it is a text with a date, or with a date and a time."""
    if not isinstance(text, str):
        return False
    for read in (date.fromisoformat, datetime.fromisoformat):
        try:
            read(text)
        except ValueError:
            continue
        return True
    return False
