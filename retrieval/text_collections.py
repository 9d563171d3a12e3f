"""What both contracts of texts do with collections: write what is embedded, and find what is near a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import structlog

from providers.base import Filter
from providers.embeddings.base import EmbeddingConnection
from registry.connections import Connections
from retrieval.collection_writer import CollectionWriter
from retrieval.corpus import Corpus
from retrieval.failures import embedding_errors, store_errors
from retrieval.oracles.base import Question
from retrieval.oracles.semantic import SemanticOracle
from schemas.connections import CollectionInfo
from schemas.errors import RagError
from schemas.searched import OracleResult

log = structlog.get_logger(__name__)


class TextCollections:
    """Usable by several threads. `default_collections` are those of all contracts; `embedding_connection` embeds
    documents and questions, the latter within `limit_seconds`."""

    def __init__(
        self,
        connections: Connections,
        corpus: Corpus,
        semantic: SemanticOracle,
        *,
        default_collections: Sequence[str],
        limit_seconds: float,
        embedding_connection: str = "default",
    ) -> None:
        self.corpus = corpus
        self._connections = connections
        self._semantic = semantic
        self._default_collections = tuple(default_collections)
        self._limit_seconds = limit_seconds
        self._embedding_connection = embedding_connection

    def embedding(self) -> EmbeddingConnection:
        """Raises EmbeddingFailureError."""
        with embedding_errors():
            return cast(EmbeddingConnection, self._connections.open(self._embedding_connection, "embedding"))

    def warm_up(self) -> None:
        """Make the first question as quick as the others, where there is something to ask about. Raises nothing."""
        try:
            if any(each.count for each in self.searched()):
                self.embedding().warm_up()
        except RagError as error:
            log.info("embeddings are not ready yet", reason=error.message)

    def writer(self, name: str, embedding: EmbeddingConnection) -> CollectionWriter:
        return CollectionWriter(self.corpus.provider(), name, embedding)

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
        with embedding_errors():
            embedded = self._semantic.embed(text, self._limit_seconds)
        with store_errors():
            return self._semantic.nearest(embedded, Question(text, tuple(collections), where), limit).results
