"""The store of seed 002: documents by source and path, in windows that overlap, and the chunks similar to a text."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from providers.base import Filter, SupportsEmbeddings, SupportsMetadataFiltering
from providers.embeddings.base import EmbeddingConnection
from retrieval import profiles
from retrieval.drafts import FIRST_CHUNKS, INTERNAL, SourceDocument, is_file_name
from retrieval.filters import narrowed
from retrieval.text_collections import TextCollections
from schemas.counted import counted
from schemas.errors import CollectionNotFoundError, ConflictError, InvalidInputError, NotFoundError
from schemas.rag import (
    DEFAULT_TOP_K,
    CollectionCounts,
    Deleted,
    Filters,
    KnownDocument,
    RagDocument,
    SimilarChunk,
    SimilarChunks,
    StoreMetrics,
    Upserted,
)
from schemas.records import Document, Metadata
from schemas.searched import OracleResult
from schemas.settings import RetrievalSettings

NO_FILTERS = Filters()


class AmbiguousDocumentError(ConflictError):
    """Several collections have a document of that id."""

    code = "ambiguous_document"

    def __init__(self, document_id: str, collections: list[str]) -> None:
        sentence = f"Document '{document_id}' is in {', '.join(collections)}: say which with 'collection'"
        super().__init__(sentence, id=document_id, field="collection", allowed=collections)


@dataclass(frozen=True, slots=True)
class _Found:
    """A document in a collection: selected by `ids` where it is stored as a whole, by `where` where it has chunks."""

    chunks: int
    ids: list[str] | None = None
    where: Filter | None = None


class RagStore:
    """Usable by several threads. What is ingested goes to the settings' `documents_collection`; what is searched are
    the collections of all contracts."""

    def __init__(self, texts: TextCollections, settings: RetrievalSettings) -> None:
        self._texts = texts
        self._settings = settings

    @property
    def collection(self) -> str:
        """Where documents are ingested to."""
        return self._settings.documents_collection

    def upsert_document_with_chunks(self, document: RagDocument) -> Upserted:
        """Ingest a document: split, embedded and swapped as a whole. Raises EmbeddingFailureError, VectorDBWriteError,
        InvalidInputError; the version before stays then."""
        done = self._texts.ingest(
            self._settings.documents_collection, lambda embedding: self._to_source(document, embedding)
        )
        return Upserted(done.status, document_id_of(document.source, document.path), done.chunks)

    def search_similar_chunks(
        self,
        query: str,
        *,
        top_k: int = DEFAULT_TOP_K,
        min_score: float = 0.0,
        filters: Filters = NO_FILTERS,
        collections: Sequence[str] | None = None,
    ) -> SimilarChunks:
        """The chunks nearest to a text, best first, of at least `min_score`; `collections` as `CollectionChoice.choose`
        takes them. Raises InvalidInputError, CollectionNotFoundError, EmbeddingFailureError,
        VectorDBUnavailableError."""
        if not query.strip():
            raise InvalidInputError("query must not be blank", code="invalid_query", field="query")
        chosen = self._texts.searched(collections)
        answer = self._texts.nearest(query, chosen, to_where(filters), top_k)
        similar = [_similar(each) for each in answer.results if each.score >= min_score]
        return SimilarChunks(similar, chosen.receipt.without(answer.left_out))

    def documents(
        self,
        collection: str | None = None,
        *,
        filters: Filters = NO_FILTERS,
        limit: int = 100,
        cursor: str | None = None,
    ) -> tuple[list[KnownDocument], int, str | None]:
        """(documents that match, in the order of their first ingestion, how many there are in all, cursor of the next
        page). Raises CollectionNotFoundError for a collection that is named."""
        name = self._settings.documents_collection if collection is None else collection
        reads = self._texts.corpus.open().able(SupportsMetadataFiltering)
        try:
            page = reads.documents(name, narrowed(to_where(filters), FIRST_CHUNKS), limit=limit, cursor=cursor)
        except CollectionNotFoundError:
            if collection is not None:
                raise
            return [], 0, None
        return [_known(each, name) for each in page.documents], page.total, page.next_cursor

    def delete_document(self, document_id: str, collection: str | None = None) -> Deleted:
        """Delete the document of that id with its chunks, in the collection that is named, else in the text collection
        that has it. Raises NotFoundError, CollectionNotFoundError, and AmbiguousDocumentError when several have one."""
        chosen = self._texts.searched(None if collection is None else (collection,))
        reads = chosen.corpus.able(SupportsMetadataFiltering)
        homes = {each.name: found for each in chosen.asked if (found := _find(reads, each.name, document_id))}
        if not homes:
            asked = "" if collection is not None else f" in the {counted(len(chosen.asked), 'text collection')} asked"
            raise NotFoundError(f"Document '{document_id}' not found{asked}", code="document_not_found", id=document_id)
        if len(homes) > 1:
            raise AmbiguousDocumentError(document_id, sorted(homes))
        [(name, found)] = homes.items()
        writes = chosen.corpus.able(SupportsEmbeddings)
        writes.delete_documents(name, ids=found.ids, where=found.where)
        return Deleted(name, found.chunks)

    def metrics(self) -> StoreMetrics:
        """Counts of now, in the collections that are searched."""
        embedding = self._texts.embedding()
        counts = [
            CollectionCounts(each.name, self._texts.documents_in(each), each.count or 0)
            for each in self._texts.searched().asked
        ]
        return StoreMetrics(counts, embedding.id, embedding.model, embedding.dimension)

    def _to_source(self, document: RagDocument, embedding: EmbeddingConnection) -> SourceDocument:
        about: Metadata = {"source": document.source, "path": document.path}
        return SourceDocument(
            id=document_id_of(document.source, document.path),
            title=document.title,
            text=document.text,
            metadata={**document.metadata, **about, "tags": list(document.tags)},
            split=profiles.windows(embedding, self._settings.chunk_max_tokens, self._settings.chunk_overlap_tokens),
            hash=document.hash,
            title_is_file_name=is_file_name(document.title, document.path),
        )


def document_id_of(source: str, path: str) -> str:
    """`md5(source + ":" + path)`, in hexadecimal."""
    return hashlib.md5(f"{source}:{path}".encode(), usedforsecurity=False).hexdigest()


def _find(reads: SupportsMetadataFiltering, collection: str, document_id: str) -> _Found | None:
    ids = _spellings(document_id)
    where: Filter = {"document_id": {"$in": ids}}
    chunks = reads.documents(collection, where, limit=1).total
    if chunks:
        return _Found(chunks, where=where)
    whole = [each.id for each in reads.documents_by_id(collection, ids) if "document_id" not in each.metadata]
    return _Found(len(whole), ids=whole) if whole else None


def _spellings(document_id: str) -> list[str]:
    """The id as it is stored, which seed 001 has as a UUID, whatever it was."""
    try:
        known = uuid.UUID(document_id)
    except ValueError:
        return [document_id]
    return list(dict.fromkeys((document_id, str(known), known.hex)))


def to_where(filters: Filters) -> Filter | None:
    """Source, path and tags must match, of the tags one."""
    said = {"source": filters.source, "path": filters.path}
    where: Filter | None = {name: value for name, value in said.items() if value is not None} or None
    if filters.tags:
        where = narrowed(where, {"$or": [{"tags": {"$contains": tag}} for tag in filters.tags]})
    return where


def _similar(found: OracleResult) -> SimilarChunk:
    told = found.metadata
    return SimilarChunk(
        text=found.content,
        score=found.score,
        document_id=found.doc_id,
        collection=found.collection,
        chunk_id=found.chunk_id,
        source=_text(told, "source", found.collection),
        path=_text(told, "path", found.chunk_id),
        title=_text(told, "title", found.doc_id),
        chunk_index=_number(told.get("chunk_index")),
        tags=_tags(told),
        metadata={name: value for name, value in told.items() if name not in INTERNAL},
    )


def _known(first: Document, collection: str) -> KnownDocument:
    told = first.metadata
    return KnownDocument(
        document_id=str(told["document_id"]),
        collection=collection,
        source=_text(told, "source", ""),
        path=_text(told, "path", ""),
        title=_text(told, "title", ""),
        hash=told.get("hash"),
        tags=_tags(told),
        chunk_count=_number(told.get("chunk_count")),
        embedding_model=told.get("embedding_model"),
        created_at=told.get("created_at"),
        updated_at=told.get("updated_at"),
    )


def _text(metadata: Metadata, name: str, usual: str) -> str:
    value = metadata.get(name)
    return value if isinstance(value, str) and value else usual


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _tags(metadata: Metadata) -> list[str]:
    tags = metadata.get("tags")
    return [each for each in tags if isinstance(each, str)] if isinstance(tags, list) else []
