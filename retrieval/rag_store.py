"""The store of seed 002: documents by source and path, in windows that overlap, and the chunks similar to a text."""

from __future__ import annotations

import hashlib
from typing import Any

from providers.base import Filter, SupportsEmbeddings, SupportsMetadataFiltering
from providers.embeddings.base import EmbeddingConnection
from retrieval import profiles
from retrieval.drafts import FIRST_CHUNKS, INTERNAL, SourceDocument
from retrieval.filters import narrowed
from retrieval.text_collections import TextCollections
from schemas.errors import CollectionNotFoundError, InvalidInputError, NotFoundError
from schemas.rag import (
    DEFAULT_TOP_K,
    CollectionCounts,
    Filters,
    KnownDocument,
    RagDocument,
    SimilarChunk,
    StoreMetrics,
    Upserted,
)
from schemas.records import Document, Metadata
from schemas.searched import OracleResult
from schemas.settings import RetrievalSettings

NO_FILTERS = Filters()


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
        self, query: str, *, top_k: int = DEFAULT_TOP_K, min_score: float = 0.0, filters: Filters = NO_FILTERS
    ) -> list[SimilarChunk]:
        """The chunks nearest to a text, best first, of at least `min_score`. Raises InvalidInputError,
        EmbeddingFailureError, VectorDBUnavailableError."""
        if not query.strip():
            raise InvalidInputError("query must not be blank", code="invalid_query", field="query")
        found = self._texts.nearest(query, self._texts.searched(), to_where(filters), top_k)
        return [_similar(each) for each in found if each.score >= min_score]

    def documents(
        self, collection: str | None = None, *, limit: int = 100, cursor: str | None = None
    ) -> tuple[list[KnownDocument], int, str | None]:
        """(documents in the order of their first ingestion, how many there are in all, cursor of the next page)."""
        name = self._settings.documents_collection if collection is None else collection
        reads = self._texts.corpus.able(SupportsMetadataFiltering)
        try:
            page = reads.documents(name, FIRST_CHUNKS, limit=limit, cursor=cursor)
        except CollectionNotFoundError:
            if collection is not None:
                raise
            return [], 0, None
        return [_known(each, name) for each in page.documents], page.total, page.next_cursor

    def delete_document(self, document_id: str, collection: str | None = None) -> int:
        """How many chunks it had. Raises NotFoundError."""
        name = self._settings.documents_collection if collection is None else collection
        where: Filter = {"document_id": document_id}
        try:
            count = self._texts.corpus.able(SupportsMetadataFiltering).documents(name, where, limit=1).total
        except CollectionNotFoundError:
            if collection is not None:
                raise
            count = 0
        if count == 0:
            raise NotFoundError(f"Document '{document_id}' not found", code="document_not_found", id=document_id)
        self._texts.corpus.able(SupportsEmbeddings).delete_documents(name, where=where)
        return count

    def metrics(self) -> StoreMetrics:
        """Counts of now, in the collections that are searched."""
        embedding = self._texts.embedding()
        counts = [
            CollectionCounts(each.name, self._texts.documents_in(each), each.count or 0)
            for each in self._texts.searched()
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
        )


def document_id_of(source: str, path: str) -> str:
    """`md5(source + ":" + path)`, in hexadecimal."""
    return hashlib.md5(f"{source}:{path}".encode(), usedforsecurity=False).hexdigest()


def to_where(filters: Filters) -> Filter | None:
    """Source and tags must match, of the tags one."""
    where: Filter | None = None if filters.source is None else {"source": filters.source}
    if filters.tags:
        where = narrowed(where, {"$or": [{"tags": {"$contains": tag}} for tag in filters.tags]})
    return where


def _similar(found: OracleResult) -> SimilarChunk:
    told = found.metadata
    return SimilarChunk(
        text=found.content,
        score=found.score,
        document_id=found.doc_id,
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
