"""The vector of a query's text, by an embedding connection, and whether a collection can be asked with it."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import cast

import orjson

from providers.embeddings.base import EmbeddingConnection
from registry.connections import Connections
from registry.embedding_batches import EmbeddingBatches
from registry.embedding_cache import EmbeddingCache, EmbeddingKey
from schemas.connections import CollectionInfo
from schemas.errors import InvalidInputError
from schemas.records import Vector


class EmbeddingMismatchError(InvalidInputError):
    """The collection's documents were embedded by another model than the query would be."""

    code = "embedding_mismatch"


@dataclass(frozen=True, slots=True)
class QueryEmbedding:
    """`vector` is float32 (dimension,); `generated` is False when it was there already."""

    connection: EmbeddingConnection
    vector: Vector
    generated: bool

    def check_fits(self, info: CollectionInfo) -> None:
        """Raises EmbeddingMismatchError: vectors of two models mean nothing to each other, even where their
        dimensions agree."""
        recorded, model = info.metadata.get("embedding_model"), self.connection.model
        if isinstance(recorded, str) and recorded != model:
            raise EmbeddingMismatchError(
                f"Collection '{info.name}' holds embeddings of '{recorded}', the query's would be of '{model}'",
                collection=info.name,
                recorded=recorded,
                given=model,
            )
        dimension = self.vector.shape[0]
        if info.dimension is not None and info.dimension != dimension:
            raise EmbeddingMismatchError(
                f"Collection '{info.name}' holds embeddings of dimension {info.dimension}, the query's has {dimension}",
                collection=info.name,
                recorded=info.dimension,
                given=dimension,
            )


class QueryEmbeddings:
    """Usable by several threads."""

    def __init__(self, connections: Connections, cache: EmbeddingCache) -> None:
        self._connections = connections
        self._cache = cache
        self._lock = threading.Lock()
        self._batches: dict[tuple[str, str], EmbeddingBatches] = {}

    def embed(
        self, connection_id: str, text: str, model: str | None = None, *, within_seconds: float | None = None
    ) -> QueryEmbedding:
        """By that connection, with another model when one is given. Raises what `Connections.open` and
        `EmbeddingConnection.embed` raise, and UnavailableError when there is no answer in time."""
        connection = cast(EmbeddingConnection, self._connections.open(connection_id, "embedding", model=model))
        made_by = hashlib.sha256(orjson.dumps(connection.config, option=orjson.OPT_SORT_KEYS)).hexdigest()
        key = EmbeddingKey(connection_id, made_by, connection.model, text)
        vector, generated = self._cache.get(
            key, lambda: self._batches_of(connection_id, connection).embed(text, within_seconds)
        )
        return QueryEmbedding(connection, vector, generated)

    def close(self) -> None:
        with self._lock:
            batches, self._batches = list(self._batches.values()), {}
        for each in batches:
            each.close()

    def _batches_of(self, connection_id: str, connection: EmbeddingConnection) -> EmbeddingBatches:
        name = (connection_id, connection.model)
        with self._lock:
            before = self._batches.get(name)
            if before is not None and before.connection is connection:
                return before
            # The one before is not closed: somebody may be about to ask it, and it ends with the last of them.
            found = self._batches[name] = EmbeddingBatches(connection)
            return found
