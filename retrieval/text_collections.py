"""What all contracts of texts do with collections: write what is embedded, and find what is near a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from providers.base import Filter, SupportsMetadataFiltering
from providers.embeddings.base import EmbeddingConnection
from registry.connections import Connections
from registry.query_embeddings import QueryEmbedding
from retrieval.collection_writer import CollectionWriter
from retrieval.corpus import Corpus
from retrieval.drafts import FIRST_CHUNKS, SourceDocument
from retrieval.failures import embedding_errors, store_errors, write_error
from retrieval.ingestion import Ingested, ingest_document
from retrieval.oracles.base import Question
from retrieval.oracles.semantic import SemanticOracle
from schemas.connections import CollectionInfo
from schemas.errors import ConflictError, InvalidInputError, RagError
from schemas.pipeline import EmbeddingFailureError
from schemas.searched import OracleAnswer, OracleResult


class TextCollections:
    """Usable by several threads. `default_collections` are those of all contracts; `embedding_connection` embeds
    documents and questions, the latter within `limit_seconds`; `about_to_embed` is called before."""

    def __init__(
        self,
        connections: Connections,
        corpus: Corpus,
        semantic: SemanticOracle,
        *,
        default_collections: Sequence[str],
        limit_seconds: float,
        embedding_connection: str = "default",
        about_to_embed: Callable[[], None] = lambda: None,
    ) -> None:
        self.corpus = corpus
        self._connections = connections
        self._semantic = semantic
        self._default_collections = tuple(default_collections)
        self._limit_seconds = limit_seconds
        self._embedding_connection = embedding_connection
        self._about_to_embed = about_to_embed

    def embedding(self) -> EmbeddingConnection:
        """Raises EmbeddingFailureError."""
        with embedding_errors():
            return cast(EmbeddingConnection, self._connections.open(self._embedding_connection, "embedding"))

    def hold_something(self) -> bool:
        """Whether there is anything to ask about. Raises VectorDBUnavailableError."""
        return any(each.count for each in self.searched())

    def writer(self, name: str, embedding: EmbeddingConnection) -> CollectionWriter:
        return CollectionWriter(self.corpus.provider(), name, embedding)

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

    def searched(self, name: str | None = None) -> list[CollectionInfo]:
        """The collection of that name, else those of the default ones that exist. Raises CollectionNotFoundError for a
        name, VectorDBUnavailableError."""
        with store_errors():
            return self.corpus.existing(self._default_collections) if name is None else self.corpus.named([name])

    def nearest(
        self, text: str, collections: Sequence[CollectionInfo], where: Filter | None, limit: int
    ) -> list[OracleResult]:
        """The chunks nearest to a text, best first. Raises EmbeddingFailureError, VectorDBUnavailableError."""
        if not collections:
            return []
        embedded = self.embed(text, self._limit_seconds)
        return self.near(embedded, Question(text, tuple(collections), where), limit).results

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
        return self.corpus.able(SupportsMetadataFiltering).documents(collection.name, FIRST_CHUNKS, limit=1).total
