"""The store of the contract *documents*: texts by source and path, in overlapping windows, and a search among them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from providers.base import SupportsEmbeddings, SupportsMetadataFiltering
from providers.embeddings.base import EmbeddingProvider
from retrieval.ingest import profiles
from retrieval.ingest.drafts import FIRST_CHUNKS, INTERNAL, SourceDocument, is_file_name
from retrieval.ingest.files import merged_tags
from retrieval.ingest.identity import same_text, text_document_id
from retrieval.reading.front_matter import FrontMatter, split_front_matter
from retrieval.text_collections import TextCollections
from schemas.contracts.search import OracleResult
from schemas.contracts.text_documents import (
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
from schemas.errors import CollectionNotFoundError, ConflictError, InvalidInputError, NotFoundError
from schemas.plurals import counted
from schemas.records import Document, Metadata
from schemas.settings import RetrievalSettings
from schemas.where import Contains, Equals, In, Or, Where, all_of

NO_FILTERS = Filters()
TEXT_KIND = "markdown"
"""The `kind` of texts that are sent: they are read as Markdown."""


class AmbiguousDocumentError(ConflictError):
    """Several collections have a document of that id."""

    code = "ambiguous_document"

    def __init__(self, document_id: str, collections: list[str]) -> None:
        sentence = f"Document '{document_id}' is in {', '.join(collections)}: say which with 'collection'"
        super().__init__(sentence, id=document_id, field="collection", allowed=collections)


@dataclass(frozen=True, slots=True)
class _Found:
    """A document in a collection, selected by `ids` when it is stored whole and by `where` when it has chunks."""

    chunks: int
    ids: list[str] | None = None
    where: Where | None = None


class RagStore:
    """Ingests, searches, lists and deletes text documents; usable by several threads.

    Documents go to the settings' `documents_collection`, while searches ask the text collections of all contracts.
    """

    def __init__(self, texts: TextCollections, settings: RetrievalSettings) -> None:
        self._texts = texts
        self._settings = settings

    @property
    def collection(self) -> str:
        """The name of the collection that documents are ingested to."""
        return self._settings.documents_collection

    def upsert_document_with_chunks(self, document: RagDocument) -> Upserted:
        """Ingest a document: split it, embed it and swap all its chunks at once.

        Raises EmbeddingFailureError, VectorDBWriteError and InvalidInputError; the stored version stays then.
        """
        done = self._texts.ingest(
            self._settings.documents_collection, lambda embedding: self._to_source(document, embedding)
        )
        return Upserted(done.status, text_document_id(document.source, document.path), done.chunks)

    def search_similar_chunks(
        self,
        query: str,
        *,
        top_k: int = DEFAULT_TOP_K,
        min_score: float = 0.0,
        min_relevance: float | None = 0.0,
        filters: Filters = NO_FILTERS,
        collections: Sequence[str] | None = None,
    ) -> SimilarChunks:
        """Return the chunks nearest to a text that have at least that score and relevance, best first.

        `min_relevance` of None is the default of `least_relevance`. `collections` are what `CollectionChoice.choose`
        takes. Raises InvalidInputError, CollectionNotFoundError, EmbeddingFailureError and VectorDBUnavailableError.
        """
        if not query.strip():
            raise InvalidInputError("query must not be blank", code="invalid_query", field="query")
        chosen = self._texts.searched(collections)
        least = self.least_relevance(min_relevance)
        answer = self._texts.nearest(query, chosen, to_where(filters), top_k, min_relevance=least)
        similar = [_similar(each) for each in answer.results if each.score >= min_score]
        return SimilarChunks(similar, chosen.receipt.without(answer.left_out))

    def least_relevance(self, asked: float | None = None) -> float:
        """Return the least relevance of a chunk: as asked, else as set, else the embedding model's."""
        return self._texts.least_relevance(asked)

    def documents(
        self,
        collection: str | None = None,
        *,
        filters: Filters = NO_FILTERS,
        limit: int = 100,
        cursor: str | None = None,
    ) -> tuple[list[KnownDocument], int, str | None]:
        """Return a page of the documents that match, how many match in all, and the cursor of the next page.

        Documents come in the order of their first ingestion. Raises CollectionNotFoundError for a collection that is
        named.
        """
        name = self._settings.documents_collection if collection is None else collection
        reads = self._texts.corpus.open().able(SupportsMetadataFiltering)
        try:
            page = reads.documents(name, all_of(to_where(filters), FIRST_CHUNKS), limit=limit, cursor=cursor)
        except CollectionNotFoundError:
            if collection is not None:
                raise
            return [], 0, None
        return [_known(each, name) for each in page.documents], page.total, page.next_cursor

    def delete_document(self, document_id: str, collection: str | None = None) -> Deleted:
        """Delete the document of that id with its chunks, in the named collection or in the one that has it.

        Raises NotFoundError, CollectionNotFoundError, and AmbiguousDocumentError when several collections have one.
        """
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
        """Return the current counts of the collections that searches ask."""
        embedding, chosen = self._texts.embedding(), self._texts.searched()
        counts = [
            CollectionCounts(each.name, self._texts.documents_in(chosen.corpus, each), each.count or 0)
            for each in chosen.asked
        ]
        return StoreMetrics(counts, embedding.id, embedding.model, embedding.dimension)

    def _to_source(self, document: RagDocument, embedding: EmbeddingProvider) -> SourceDocument:
        read = split_front_matter(document.text)
        if not read.text.strip():
            read = FrontMatter(document.text)
        about: Metadata = {"source": document.source, "path": document.path}
        return SourceDocument(
            id=text_document_id(document.source, document.path),
            title=document.title,
            text=read.text,
            metadata={**read.metadata, **document.metadata, **about, "tags": merged_tags(document.tags, read.metadata)},
            split=profiles.windows(embedding, self._settings.chunk_max_tokens, self._settings.chunk_overlap_tokens),
            hash=document.hash,
            title_is_file_name=is_file_name(document.title, document.path),
            kind=TEXT_KIND,
            warnings=read.warnings,
            replaces=same_text(document.source, document.path),
        )


def _find(reads: SupportsMetadataFiltering, collection: str, document_id: str) -> _Found | None:
    ids = _spellings(document_id)
    where = In("document_id", tuple(ids))
    chunks = reads.documents(collection, where, limit=1).total
    if chunks:
        return _Found(chunks, where=where)
    whole = [each.id for each in reads.documents_by_id(collection, ids) if "document_id" not in each.metadata]
    return _Found(len(whole), ids=whole) if whole else None


def _spellings(document_id: str) -> list[str]:
    """Return the spellings that the id may be stored in: documents of the contract *rules* have UUIDs."""
    try:
        known = uuid.UUID(document_id)
    except ValueError:
        return [document_id]
    return list(dict.fromkeys((document_id, str(known), known.hex)))


def to_where(filters: Filters) -> Where:
    """Return what source, path and one of the tags must match, where they are given."""
    given = {"source": filters.source, "path": filters.path}
    same = [Equals(name, value) for name, value in given.items() if value is not None]
    tags = tuple(Contains("tags", tag) for tag in filters.tags)
    return all_of(*same, *tags) if len(tags) < 2 else all_of(*same, Or(tags))


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
        relevance=found.relevance,
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
