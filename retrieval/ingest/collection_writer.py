"""A collection as ingestion uses it: its stored chunks of a document, vectors for new ones, and the swap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

from providers.base import (
    RagProvider,
    SupportsConditionalWrites,
    SupportsDynamicCollections,
    SupportsEmbeddings,
    SupportsMetadataFiltering,
)
from providers.embeddings.base import EmbeddingProvider
from providers.pinned_writes import PinsEmbeddings, PinsWrites
from retrieval.failures import embedding_errors
from retrieval.ingest.drafts import Draft, text_to_embed
from retrieval.ingest.embedding_texts import Embed, embed_or_name
from schemas.access.callers import acting_still
from schemas.connections import CollectionInfo
from schemas.errors import CollectionNotFoundError, ConflictError, InvalidInputError, UnsupportedError
from schemas.records import Document, DocumentBatch, Metadata, Vector
from schemas.storage.reembedding import EmbeddingModelDiffersError, ReembeddedMeanwhileError, recorded_model
from schemas.where import Where

BATCH_DOCUMENTS = 100
ATTEMPTS = 3
"""How often a document is embedded whose collection is re-embedded each time before it is stored."""

_T = TypeVar("_T")
Stored = dict[str, Document]
"""Documents by id."""
EmbeddingOf = Callable[[CollectionInfo | None], EmbeddingProvider]
"""Returns what embeds the documents of a collection of this description, or of one that does not exist yet."""


Create = Callable[[Callable[[], CollectionInfo]], CollectionInfo]
"""Returns the description of a new collection, by calling what makes it."""


def embed_here(embedding: EmbeddingProvider, texts: list[str]) -> Vector:
    return embed_or_name(lambda embedding, texts: embedding.embed(texts), embedding, texts)


class CollectionWriter:
    """Reads and writes one collection, for one job in one thread; it caches the collection's description.

    `embed` makes the vectors, by the model of what `embedding_of` returns. The collection is created with its first
    documents, by `create`, unless `collection_id` says which one it is. Raises the provider's errors,
    CollectionNotFoundError when the name means another one or none, EmbeddingFailureError when the embedding fails,
    TextNotEmbeddedError when it does for one text, ConflictError when the collection's documents were embedded by
    another model, ReembeddedMeanwhileError when that was so only after it was described, and AccessError instead of
    embedding and writing for a caller who may not go on.
    """

    def __init__(
        self,
        provider: RagProvider,
        name: str,
        embedding_of: EmbeddingOf,
        embed: Embed = embed_here,
        collection_id: str | None = None,
        create: Create = lambda make: make(),
    ) -> None:
        if collection_id is not None:
            provider = _pinned(provider, name, collection_id)
        self._provider = provider
        self.name = name
        self.embedded = 0
        self._embedding_of = embedding_of
        self._embed_texts = embed
        self._collection_id = collection_id
        self._create_by = create
        self._has_embedded = False
        self.collection: CollectionInfo | None = None  # while it does not exist
        self._open()

    def following(self, work: Callable[[], _T]) -> _T:
        """Return the outcome of `work`, which reads documents, or embeds texts and writes them. Where the collection is
        re-embedded meanwhile, all of it is done again, by the model that the collection has then."""
        for _ in range(ATTEMPTS - 1):
            try:
                return work()
            except ReembeddedMeanwhileError:
                self._open()
        return work()

    def stored(self, where: Where) -> Stored:
        """Return the documents that match, read again where the collection is re-embedded meanwhile."""
        return self.following(lambda: {document.id: document for document in self.documents(where)})

    def documents(self, where: Where) -> Iterator[Document]:
        """Yield the documents that match, read page by page as they are consumed. Raises ReembeddedMeanwhileError where
        there is no next page, because the documents stand in another order than before."""
        if self.collection is None:
            return
        try:
            yield from self._reads.all_documents(self.name, where)
        except InvalidInputError as error:
            if error.code == "invalid_cursor":
                raise ReembeddedMeanwhileError(self.name) from error
            raise

    def stored_by_id(self, ids: Sequence[str]) -> Stored:
        if self.collection is None:
            return {}
        return {document.id: document for document in self._reads.documents_by_id(self.name, ids)}

    def vectors(
        self, drafts: Sequence[Draft], stored: Stored, advance: Callable[[float], None] = lambda part: None
    ) -> list[Vector]:
        """Return a vector for each draft: its own, that of the same text in `stored`, or a new one.

        `advance` is called with the fraction of the texts that have their vector, in [0, 1].
        """
        texts = {draft.id: text_to_embed(draft.text, draft.metadata) for draft in drafts if draft.embedding is None}
        known = self._known_vectors(set(texts.values()), stored)
        for batch in batches(dict.fromkeys(text for text in texts.values() if text not in known), BATCH_DOCUMENTS):
            known |= zip(batch, self._embed(batch), strict=True)
            advance(len(known) / len(texts))
        return [known[texts[draft.id]] if draft.embedding is None else draft.embedding for draft in drafts]

    @acting_still()
    def write(
        self,
        drafts: Sequence[Draft],
        vectors: Sequence[Vector],
        *,
        replace_where: Where | None = None,
        unless: Where | None = None,
    ) -> bool:
        """Store the drafts in one request and delete what matches `replace_where` but is not among them.

        With `unless` instead, raises AlreadyThereError and stores nothing when a document matches it. Returns False
        while vector queries do not see all of it yet.
        """
        if self.collection is None:
            self._described_as(self._create_by(self._create))
        batch = DocumentBatch(
            [draft.id for draft in drafts],
            [draft.text for draft in drafts],
            [draft.metadata for draft in drafts],
            np.stack(_of_one_dimension(vectors)),
        )
        if unless is not None:
            return _able(self._provider, SupportsConditionalWrites).add_documents_unless(self.name, batch, unless)
        return self._writes.add_documents(self.name, batch, replace_where=replace_where)

    @acting_still()
    def delete(self, where: Where) -> None:
        if self.collection is not None:
            self._writes.delete_documents(self.name, where=where)

    def _known_vectors(self, texts: set[str], stored: Stored) -> dict[str, Vector]:
        if self._recorded_model() != self.embedding.model:
            return {}
        ids = [each.id for each in stored.values() if text_to_embed(each.text, each.metadata) in texts]
        known: dict[str, Vector] = {}
        for batch in batches(ids, BATCH_DOCUMENTS):
            for found in self._reads.documents_by_id(self.name, batch, with_embeddings=True):
                if found.embedding is not None:
                    known[text_to_embed(found.text, found.metadata)] = found.embedding
        return known

    @acting_still()
    def _embed(self, texts: list[str]) -> Vector:
        recorded = self._recorded_model()
        if recorded not in (None, self.embedding.model):
            raise EmbeddingModelDiffersError(self.name, stored=recorded, given=self.embedding.model)
        with embedding_errors():
            vectors = self._embed_texts(self.embedding, texts)
        self.embedded += len(texts)
        self._has_embedded = True
        dimension = self.collection.dimension if self.collection else None
        if dimension not in (None, vectors.shape[1]):
            raise ConflictError(
                f"Collection '{self.name}' holds embeddings of {dimension} dimensions, "
                f"'{self.embedding.model}' makes {vectors.shape[1]}: re-embed it, or use the model that filled it",
                code="embedding_dimension_differs",
                stored=dimension,
                given=vectors.shape[1],
            )
        return vectors

    def _create(self) -> CollectionInfo:
        # Without any, all embeddings came with their records, and their model is unknown here.
        metadata = text_collection_metadata(self.embedding if self._has_embedded else None)
        try:
            return _able(self._provider, SupportsDynamicCollections).create_collection(self.name, metadata)
        except ConflictError:
            info = self._provider.collection(self.name)
        if self._has_embedded and recorded_model(info.metadata) not in (None, self.embedding.model):
            raise ReembeddedMeanwhileError(self.name)
        return info

    def _open(self) -> None:
        try:
            info = self._provider.collection(self.name)
        except CollectionNotFoundError:
            info = None
        if self._collection_id is not None and (info is None or info.id != self._collection_id):
            raise CollectionNotFoundError(self.name)
        self._described_as(info)
        self.embedding = self._embedding_of(info)

    def _described_as(self, info: CollectionInfo | None) -> None:
        """Store from now on what is embedded as this description says, and take vectors from there, as long as it is
        true."""
        self.collection = info
        if info is not None and isinstance(self._provider, PinsEmbeddings):
            self._provider = self._provider.embedded_as(self.name, info)
        self._reads = _able(self._provider, SupportsMetadataFiltering)
        self._writes = _able(self._provider, SupportsEmbeddings)

    def _recorded_model(self) -> str | None:
        return recorded_model(self.collection.metadata) if self.collection else None


def text_collection_metadata(embedding: EmbeddingProvider | None) -> Metadata:
    """Return the metadata of a new collection of texts, which are embedded so; None where nobody knows how."""
    metadata: Metadata = {"title_field": "title", "source_field": "source"}
    if embedding is not None:
        metadata |= {"embedding_provider": embedding.id, "embedding_model": embedding.model}
    return metadata


def batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _able(provider: RagProvider, ability: type[_T]) -> _T:
    if not isinstance(provider, ability):
        raise UnsupportedError(f"Provider '{provider.id}' cannot take in documents", provider=provider.id)
    return provider


def _pinned(provider: RagProvider, name: str, collection_id: str) -> RagProvider:
    pinned = _able(provider, PinsWrites).pinned(name, collection_id)
    assert isinstance(pinned, RagProvider)
    return pinned


def _of_one_dimension(vectors: Sequence[Vector]) -> Sequence[Vector]:
    dimension = len(vectors[0])
    for index, vector in enumerate(vectors):
        if len(vector) != dimension:
            raise InvalidInputError(
                f"documents[{index}] has an embedding of {len(vector)} dimensions, the first one has {dimension}",
                code="dimension_mismatch",
                field="embedding",
                index=index,
            )
    return vectors
