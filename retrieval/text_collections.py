"""Operations on collections that all contracts of texts share: which are searched, and who writes documents to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import cast

from providers.base import SupportsMetadataFiltering
from providers.embeddings.base import EmbeddingProvider
from registry.connections import Connections
from registry.embedding.metering import Metered, unmetered
from registry.embedding.queries import USUAL, connection_of
from retrieval.failures import embedding_errors, store_errors, write_error
from retrieval.ingest.collection_writer import CollectionWriter, Create, embed_here
from retrieval.ingest.drafts import FIRST_CHUNKS, WHOLE, SourceDocument
from retrieval.ingest.embedding_texts import Embed, TextNotEmbeddedError
from retrieval.ingest.ingestion import Ingested, ingest_document
from retrieval.search.corpus import Chosen, CollectionChoice, OpenCorpus
from schemas.access.turns import waiting_for
from schemas.connections import CollectionInfo
from schemas.contracts.jobs import Place
from schemas.contracts.rule_documents import EmbeddingFailureError
from schemas.errors import AccessError, CollectionNotFoundError, ConflictError, InvalidInputError, RagError
from schemas.records import Vector


class TextCollections:
    """The text collections of the service; safe for use by several threads.

    `choice` decides which collections a question is asked of. `about_to_embed` is called before documents are embedded.
    `min_relevance` is the least relevance of a result where a question asks for a default; None is the embedding
    model's own. `metered` is put around each call that embeds documents.
    """

    def __init__(
        self,
        connections: Connections,
        choice: CollectionChoice,
        *,
        about_to_embed: Callable[[], None] = lambda: None,
        min_relevance: float | None = None,
        metered: Metered = unmetered,
    ) -> None:
        self.corpus = choice.corpus
        self._choice = choice
        self._connections = connections
        self._about_to_embed = about_to_embed
        self._min_relevance = min_relevance
        self._metered = metered

    def embedding(self, name: str | None = None) -> EmbeddingProvider:
        """Return the embedding connection, or with the name of a collection the one that embeds its documents. Raises
        EmbeddingFailureError when it cannot be opened, and what the store raises."""
        found = [] if name is None else self.corpus.open().existing([name])
        return self._embedding_of(next(iter(found), None))

    def connections_of(self, places: Collection[Place]) -> dict[Place, str]:
        """Return the id of the connection that embeds, or is to embed, the documents of each of these collections.
        A place without an id is the collection that has the name now. Raises what the store raises."""
        corpus = self.corpus.open()
        existing = corpus.existing([name for _, name in places])
        found = {(each_id, each.name): each for each in existing for each_id in (None, each.id)}
        if moved := {place for place in places if place[0] is not None and place not in found}:
            by_id = {each.id: each for each in corpus.collections.values()}
            found |= {place: by_id[place[0]] for place in moved if place[0] in by_id}
        return {place: connection_of(found[place]) if place in found else USUAL for place in places}

    def versions_of(self, places: Collection[Place]) -> dict[Place, tuple[str, str]]:
        """Return the same connections as they are now (`Connections.version`)."""
        by_place = self.connections_of(places)
        versions = {each: self._connections.version(each) for each in {*by_place.values()}}
        return {place: versions[connection] for place, connection in by_place.items()}

    def least_relevance(self, asked: float | None = None, *, uncalibrated: float = 0.0) -> float:
        """Return the least relevance of a result: as asked, else as set, else the embedding model's, which is
        `uncalibrated` where nobody knows it.

        Raises EmbeddingFailureError when the model's is wanted and its connection cannot be opened.
        """
        if asked is not None:
            return asked
        usual = self.embedding().min_relevance if self._min_relevance is None else self._min_relevance
        return uncalibrated if usual is None else usual

    def writer(
        self,
        name: str,
        embed: Embed = embed_here,
        collection_id: str | None = None,
        create: Create = lambda make: make(),
    ) -> CollectionWriter:
        """Return a writer of the collection of that name, which embeds by the connection that embeds its documents;
        `embed`, `collection_id` and `create` as `CollectionWriter` takes them."""
        self._about_to_embed()

        def metered(embedding: EmbeddingProvider, texts: list[str]) -> Vector:
            with waiting_for(lambda: self._connections.elsewhere(self.connections_of([(None, name)]).values())):
                return self._metered(embedding, texts, lambda: embed(embedding, texts))

        return CollectionWriter(self.corpus.open().provider, name, self._embedding_of, metered, collection_id, create)

    def id_of(self, name: str) -> str | None:
        """Return the id of the collection of that name, None while there is none."""
        try:
            return self.corpus.open().provider.collection(name).id
        except CollectionNotFoundError:
            return None

    def name_now(self, collection_id: str, name: str) -> str:
        """Return what a collection is called that was called `name`. Raises CollectionNotFoundError when it is gone."""
        provider = self.corpus.open().provider
        for list_some in (partial(provider.collections_named, [name]), provider.collections):
            for each in list_some():
                if each.id == collection_id:
                    return each.name
        raise CollectionNotFoundError(name)

    def ingest(self, name: str, to_source: Callable[[EmbeddingProvider], SourceDocument]) -> Ingested:
        """Bring a document in the collection of that name up to date.

        Raises EmbeddingFailureError, VectorDBWriteError, InvalidInputError or ConflictError, and TextNotEmbeddedError
        for the first chunk that alone cannot be embedded; the previous version then stays as it is.
        """
        try:
            writer = self.writer(name)
            return ingest_document(writer, to_source(writer.embedding))
        except TextNotEmbeddedError as error:
            error.message += "; nothing of the document was stored"
            raise
        except (AccessError, InvalidInputError, EmbeddingFailureError, ConflictError):
            raise
        except RagError as error:
            raise write_error(error, "The store did not take the document", **error.details) from error

    def searched(self, names: Sequence[str] | None = None) -> Chosen:
        """Return the collections to ask; `names` are as `CollectionChoice.choose` takes them.

        Raises CollectionNotFoundError when a named one does not exist, VectorDBUnavailableError when the store fails.
        """
        with store_errors():
            return self._choice.choose(names)

    def documents_in(self, corpus: OpenCorpus, collection: CollectionInfo) -> int:
        """Return how many documents the collection has, in chunks or in one piece."""
        reads = corpus.able(SupportsMetadataFiltering)
        # Two counts, because one of both together would look at each chunk.
        return sum(reads.documents(collection.name, where, limit=1).total for where in (FIRST_CHUNKS, WHOLE))

    def _embedding_of(self, info: CollectionInfo | None) -> EmbeddingProvider:
        connection = USUAL if info is None else connection_of(info)
        with embedding_errors():
            return cast(EmbeddingProvider, self._connections.open(connection, "embedding"))
