"""What all contracts of texts do with collections: write what is embedded, and find what is near a text."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import cast

from providers.base import Filter, SupportsMetadataFiltering
from providers.embeddings.base import EmbeddingConnection
from registry.connections import Connections
from registry.query_embeddings import QueryEmbedding
from retrieval.choosing import Chosen, CollectionChoice
from retrieval.collection_writer import CollectionWriter
from retrieval.drafts import FIRST_CHUNKS, SourceDocument
from retrieval.failures import embedding_errors, store_errors, write_error
from retrieval.ingestion import Ingested, ingest_document
from retrieval.oracles.base import Question
from retrieval.oracles.semantic import SemanticOracle
from schemas.connections import CollectionInfo
from schemas.errors import ConflictError, InvalidInputError, RagError
from schemas.pipeline import EmbeddingFailureError
from schemas.searched import OracleAnswer


class TextCollections:
    """Usable by several threads. `choice` says which collections a question is asked of; `embedding_connection` embeds
    documents and questions, the latter within `limit_seconds`; `about_to_embed` is called before."""

    def __init__(
        self,
        connections: Connections,
        choice: CollectionChoice,
        semantic: SemanticOracle,
        *,
        limit_seconds: float,
        embedding_connection: str = "default",
        about_to_embed: Callable[[], None] = lambda: None,
    ) -> None:
        self.corpus = choice.corpus
        self._choice = choice
        self._connections = connections
        self._semantic = semantic
        self._limit_seconds = limit_seconds
        self._embedding_connection = embedding_connection
        self._about_to_embed = about_to_embed

    def embedding(self) -> EmbeddingConnection:
        """Raises EmbeddingFailureError."""
        with embedding_errors():
            return cast(EmbeddingConnection, self._connections.open(self._embedding_connection, "embedding"))

    def hold_something(self) -> bool:
        """Whether there is anything to ask about. Raises VectorDBUnavailableError."""
        return any(each.count for each in self.searched().asked)

    def writer(self, name: str, embedding: EmbeddingConnection) -> CollectionWriter:
        return CollectionWriter(self.corpus.open().provider, name, embedding)

    def ingest(self, name: str, to_source: Callable[[EmbeddingConnection], SourceDocument]) -> Ingested:
        """Bring a document in the collection of that name up to date. Raises EmbeddingFailureError, VectorDBWriteError,
        InvalidInputError, ConflictError; the version before stays then."""
        embedding = self.embedding()
        self._about_to_embed()
        try:
            return ingest_document(self.writer(name, embedding), to_source(embedding))
        except (InvalidInputError, EmbeddingFailureError, ConflictError):
            raise
        except RagError as error:
            raise write_error(error, "The store did not take the document", **error.details) from error

    def searched(self, names: Sequence[str] | None = None) -> Chosen:
        """The collections that a question is asked of; `names` as `CollectionChoice.choose` takes them. Raises
        CollectionNotFoundError, VectorDBUnavailableError."""
        with store_errors():
            return self._choice.choose(names)

    def nearest(self, text: str, chosen: Chosen, where: Filter | None, limit: int) -> OracleAnswer:
        """The chunks nearest to a text. Raises EmbeddingFailureError, VectorDBUnavailableError."""
        if not chosen.asked:
            return OracleAnswer([])
        embedded = self.embed(text, self._limit_seconds)
        until = time.monotonic() + self._limit_seconds
        return self.near(embedded, Question(text, chosen.corpus, chosen.asked, where, until), limit)

    def embed(self, text: str, within_seconds: float) -> QueryEmbedding:
        """Raises EmbeddingFailureError."""
        self._about_to_embed()
        with embedding_errors():
            return self._semantic.embed(text, within_seconds)

    def near(self, embedded: QueryEmbedding, question: Question, limit: int) -> OracleAnswer:
        """The chunks nearest to a question that is embedded already. Raises VectorDBUnavailableError."""
        with store_errors():
            return self._semantic.nearest(embedded, question, limit)

    def documents_in(self, collection: CollectionInfo) -> int:
        """How many documents of the collection were ingested as text."""
        reads = self.corpus.open().able(SupportsMetadataFiltering)
        return reads.documents(collection.name, FIRST_CHUNKS, limit=1).total
