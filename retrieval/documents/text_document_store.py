"""The store of the contract *documents*: texts by source and path, in overlapping windows, and a search among them."""

from __future__ import annotations

from collections.abc import Sequence

from providers.embeddings.base import EmbeddingProvider
from retrieval.documents.stored_documents import (
    NO_FILTERS,
    DocumentPage,
    StoredDocuments,
    number_in,
    tags_in,
    text_in,
    to_where,
)
from retrieval.ingest import profiles
from retrieval.ingest.drafts import INTERNAL, SourceDocument, is_file_name
from retrieval.ingest.files import merged_tags
from retrieval.ingest.identity import same_text, text_document_id
from retrieval.reading import Parsed
from retrieval.reading.front_matter import split_front_matter
from retrieval.search.engine import SearchEngine, cosine_of, search_by_meaning
from retrieval.text_collections import TextCollections
from schemas.contracts.chat import PLACES
from schemas.contracts.search import FusedResult, SearchRequest
from schemas.contracts.text_documents import (
    DEFAULT_TOP_K,
    CollectionCounts,
    Filters,
    RagDocument,
    SimilarChunk,
    SimilarChunks,
    StoreMetrics,
    Upserted,
)
from schemas.errors import CollectionNotFoundError
from schemas.metadata import set_apart
from schemas.records import Metadata
from schemas.settings import RetrievalSettings
from schemas.where import EVERYTHING, Where, all_of

TEXT_KIND = "markdown"
"""The `kind` of texts that are sent: they are read as Markdown."""


class RagStore:
    """Ingests, searches, lists and deletes text documents; usable by several threads.

    Documents go to the settings' `documents_collection`, while searches ask the text collections of all contracts.
    """

    def __init__(
        self, texts: TextCollections, search: SearchEngine, documents: StoredDocuments, settings: RetrievalSettings
    ) -> None:
        self._texts = texts
        self._search = search
        self._documents = documents
        self._settings = settings

    @property
    def collection(self) -> str:
        """The name of the collection that documents are ingested to."""
        return self._settings.documents_collection

    def upsert_document_with_chunks(self, document: RagDocument) -> Upserted:
        """Ingest a document: split it, embed it and swap all its chunks at once.

        Raises EmbeddingFailureError, VectorDBWriteError and InvalidInputError; the stored version stays then.
        """
        done = self._texts.ingest(self.collection, lambda embedding: self._to_source(document, embedding))
        return Upserted(done.status, text_document_id(document.source, document.path), done.chunks)

    def search_similar_chunks(
        self,
        query: str,
        *,
        top_k: int = DEFAULT_TOP_K,
        min_score: float = 0.0,
        min_relevance: float | None = 0.0,
        filters: Filters = NO_FILTERS,
        where: Where = EVERYTHING,
        collections: Sequence[str] | None = None,
    ) -> SimilarChunks:
        """Return the chunks nearest to a text that have at least that score and relevance, best first.

        Chunks match `filters` and `where`. `min_relevance` of None is the default of `TextCollections.least_relevance`.
        `collections` are what `CollectionChoice.choose` takes. Raises InvalidInputError, CollectionNotFoundError,
        EmbeddingFailureError and VectorDBUnavailableError.
        """
        request = SearchRequest(
            query,
            limit=top_k,
            collections=None if collections is None else tuple(collections),
            where=all_of(to_where(filters), where),
            min_relevance=self._texts.least_relevance(min_relevance),
        )
        answer = search_by_meaning(self._search, request)
        similar = [chunk for each in answer.results if (chunk := similar_chunk(each)).score >= min_score]
        return SimilarChunks(similar, answer.receipt.collections)

    def documents(
        self,
        collection: str | None = None,
        *,
        filters: Filters = NO_FILTERS,
        limit: int = 100,
        cursor: str | None = None,
    ) -> DocumentPage:
        """Return a page of the documents of one collection that match, in the order of their first ingestion. Raises
        CollectionNotFoundError for a collection that is named."""
        try:
            return self._documents.page((collection or self.collection,), filters=filters, limit=limit, cursor=cursor)
        except CollectionNotFoundError:
            if collection is not None:
                raise
            return DocumentPage([], 0, None)

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
            read = Parsed(document.text)
        about: Metadata = {
            "source": document.source,
            "path": document.path,
            "tags": merged_tags(document.tags, read.metadata),
        }
        told = set_apart({name: each for name, each in read.metadata.items() if name != "tags"}, {}, PLACES)
        return SourceDocument(
            id=text_document_id(document.source, document.path),
            title=document.title,
            text=read.text,
            metadata=set_apart({**told, **document.metadata}, about),
            split=profiles.windows(embedding, self._settings.chunk_max_tokens, self._settings.chunk_overlap_tokens),
            hash=document.hash,
            title_is_file_name=is_file_name(document.title, document.path),
            kind=TEXT_KIND,
            warnings=read.warnings,
            replaces=same_text(document.source, document.path),
            size_bytes=len(document.text.encode()),
        )


def similar_chunk(found: FusedResult) -> SimilarChunk:
    """Return a hit of a search as the contract *documents* has it."""
    told = found.metadata
    return SimilarChunk(
        text=found.content,
        score=cosine_of(found),
        document_id=found.doc_id,
        collection=found.collection,
        chunk_id=found.chunk_id,
        source=text_in(told, "source", found.collection),
        path=text_in(told, "path", found.chunk_id),
        title=text_in(told, "title", found.doc_id),
        chunk_index=number_in(told, "chunk_index"),
        tags=tags_in(told),
        metadata={name: value for name, value in told.items() if name not in INTERNAL},
        relevance=found.relevance,
    )
