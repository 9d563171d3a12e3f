"""The vector of a query's text, and whether a collection can be searched with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast
from weakref import WeakKeyDictionary

import numpy as np

from providers.embeddings.base import EmbeddingProvider
from providers.outbound import deadlines
from registry.connections import Connections
from registry.embedding.batches import MAX_TEXTS, EmbeddingBatches
from registry.embedding.cache import EmbeddingCache, EmbeddingKey
from registry.embedding.metering import Metered, unmetered
from registry.live_connections import LiveConnection
from registry.stored_connections import ConnectionNotFoundError
from schemas.access.callers import check_acting, current_view
from schemas.connections import CollectionInfo
from schemas.errors import ConflictError, RagError
from schemas.records import Vector


class EmbeddingMismatchError(ConflictError):
    """The collection's documents were embedded by another model than the query."""

    code = "embedding_mismatch"


@dataclass(frozen=True, slots=True)
class QueryEmbedding:
    """A vector, float32 (dimension,), made by `model`.

    `generated` is False when it came from the cache, and `is_readable` when the model cannot read the text: then the
    vector means nothing.
    """

    connection: EmbeddingProvider
    model: str
    vector: Vector
    generated: bool
    is_readable: bool

    def check_fits(self, info: CollectionInfo) -> None:
        """Raise EmbeddingMismatchError when model or dimension differ from the collection's.

        Vectors of two models cannot be compared, even where their dimensions agree.
        """
        recorded, model = info.metadata.get("embedding_model"), self.model
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
    """Embeds query texts by named connections; safe for use by several threads."""

    def __init__(self, connections: Connections, cache: EmbeddingCache, metered: Metered = unmetered) -> None:
        self._connections = connections
        self._cache = cache
        self._metered = metered
        self._lock = threading.Lock()
        self._batches: WeakKeyDictionary[LiveConnection, EmbeddingBatches] = WeakKeyDictionary()

    def embed(
        self, connection_id: str, text: str, model: str | None = None, *, within_seconds: float | None = None
    ) -> QueryEmbedding:
        """Embed the text by that connection, with another model than its own when one is given.

        Raises what `Connections.open` and `EmbeddingProvider.embed` raise, UnavailableError when there is no answer in
        time, and AccessError when the caller may not go on or may have no more texts embedded.
        """
        live = self._connections.live(connection_id, "embedding")
        connection = cast(EmbeddingProvider, live.provider)
        wanted = connection.model if model is None else model
        key = EmbeddingKey(connection_id, live.identity, wanted, text, current_view())

        def make() -> Vector:
            check_acting()  # the question may have waited for its turn
            return self._metered(connection, [text], lambda: self._batches_of(live, connection).embed(text, wanted))

        with deadlines.within(within_seconds):
            vector, generated = self._cache.get(key, make)
        is_readable = wanted != connection.model or connection.can_read(text)
        return QueryEmbedding(connection, wanted, vector, generated, is_readable)

    def embed_all(self, connection_id: str, texts: Sequence[str]) -> Vector:
        """Embed texts by that connection's own model, float32 (texts, dimension), and keep none of them.

        A text that comes alone shares a call with those of other callers. Raises what `embed` raises.
        """
        live = self._connections.live(connection_id, "embedding")
        connection = cast(EmbeddingProvider, live.provider)
        if len(texts) == 1:
            [text] = texts
            embed_one = partial(self._batches_of(live, connection).embed, text, connection.model)
            return self._metered(connection, texts, lambda: embed_one()[np.newaxis])
        parts = []
        for start in range(0, len(texts), MAX_TEXTS):
            part = texts[start : start + MAX_TEXTS]
            check_acting()  # many texts take long
            parts.append(self._metered(connection, part, partial(connection.embed, part)))
        return np.concatenate(parts)

    def _batches_of(self, live: LiveConnection, connection: EmbeddingProvider) -> EmbeddingBatches:
        with self._lock:
            return self._batches.setdefault(live, EmbeddingBatches(connection))


def connection_of(info: CollectionInfo, usual: str) -> str:
    """Return the connection whose model made a collection's vectors: what its metadata name, else the usual one."""
    named = info.metadata.get("embedding_connection")
    return named if isinstance(named, str) and named else usual


class AskedEmbeddings:
    """The embeddings of one question by the connections of the collections that it is asked of; safe for use by several
    threads. `make` embeds it by a connection."""

    def __init__(self, make: Callable[[str], QueryEmbedding], usual: str) -> None:
        self._make = make
        self.usual = usual
        self._lock = threading.Lock()
        self._asked: dict[str, AskedEmbedding] = {}

    def of(self, info: CollectionInfo) -> QueryEmbedding:
        """Return the embedding for a collection; by the usual connection where the collection's own is not here.

        Raises what `QueryEmbeddings.embed` raises, the same for all who want it.
        """
        try:
            return self._by(connection_of(info, self.usual)).get()
        except ConnectionNotFoundError:
            return self._by(self.usual).get()

    def made_of(self, info: CollectionInfo) -> QueryEmbedding | None:
        """Return the embedding for a collection as far as it was made, None when nobody wanted it or it failed."""
        asked = self._by(connection_of(info, self.usual))
        return self._by(self.usual).made if asked.is_nowhere else asked.made

    def _by(self, connection: str) -> AskedEmbedding:
        with self._lock:
            return self._asked.setdefault(connection, AskedEmbedding(partial(self._make, connection)))


class AskedEmbedding:
    """The embedding of one question, made when it is first wanted and once for all who want it, in any thread."""

    def __init__(self, make: Callable[[], QueryEmbedding]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: QueryEmbedding | RagError | None = None

    def get(self) -> QueryEmbedding:
        """Return the embedding. Raises what `QueryEmbeddings.embed` raises, the same for all who want it."""
        with self._lock:
            if self._made is None:
                try:
                    self._made = self._make()
                except RagError as error:
                    self._made = error
        if isinstance(self._made, RagError):
            raise self._made
        return self._made

    @property
    def made(self) -> QueryEmbedding | None:
        """The embedding as far as it was made, None when nobody wanted it or it failed."""
        return self._made if isinstance(self._made, QueryEmbedding) else None

    @property
    def is_nowhere(self) -> bool:
        """Whether there turned out to be no such connection."""
        return isinstance(self._made, ConnectionNotFoundError)
