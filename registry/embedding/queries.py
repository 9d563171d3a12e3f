"""The vector of a query's text, and whether a collection can be searched with it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import cast
from weakref import WeakKeyDictionary

import numpy as np

from providers.embeddings.base import EmbeddingProvider, UnusableVectorError, checked_texts
from providers.outbound import deadlines
from providers.outbound.refusals import RefusedTextsError
from registry.connection_threads import ConnectionThreads
from registry.connections import Connections
from registry.embedding.batches import EMBEDDING_TIMEOUT, MAX_TEXTS, EmbeddingBatches
from registry.embedding.cache import EmbeddingCache, EmbeddingKey
from registry.embedding.metering import Metered, unmetered
from registry.live_connections import LiveConnection
from registry.stored_connections import ConnectionNotFoundError
from schemas.access.callers import check_acting, current_view
from schemas.access.turns import waiting_for
from schemas.connections import CollectionInfo
from schemas.errors import ConflictError, RagError, UnavailableError
from schemas.records import Vector
from schemas.storage.reembedding import recorded_connection, recorded_model

USUAL = "default"
"""The connection that embeds texts where nothing says another one."""


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
        recorded, model = recorded_model(info.metadata), self.model
        if recorded not in (None, model):
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
    """Embeds query texts by named connections; safe for use by several threads.

    `threads` are for questions that several connections embed at the same time.
    """

    def __init__(self, connections: Connections, cache: EmbeddingCache, metered: Metered = unmetered) -> None:
        self._connections = connections
        self._cache = cache
        self._metered = metered
        self._lock = threading.Lock()
        self._batches: WeakKeyDictionary[LiveConnection, EmbeddingBatches] = WeakKeyDictionary()
        self.threads = ConnectionThreads("question")

    def close(self) -> None:
        self.threads.close()

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
        with waiting_for(lambda: self._connections.elsewhere([connection_id])):
            return self._embed_all(connection_id, texts)

    def _embed_all(self, connection_id: str, texts: Sequence[str]) -> Vector:
        live = self._connections.live(connection_id, "embedding")
        connection = cast(EmbeddingProvider, live.provider)
        if len(texts) == 1:
            [text] = texts
            embed_one = partial(self._batches_of(live, connection).embed, text, connection.model)
            return self._metered(connection, texts, lambda: embed_one()[np.newaxis])
        parts = []
        checked = checked_texts(texts)
        for start in range(0, len(checked), MAX_TEXTS):
            part = checked[start : start + MAX_TEXTS]
            check_acting()  # many texts take long
            try:
                parts.append(self._metered(connection, part, partial(connection.embed, part)))
            except RefusedTextsError as error:
                raise error.moved(texts, by=start) from error
            except UnusableVectorError as error:
                raise error.among(texts) from error
        return np.concatenate(parts)

    def _batches_of(self, live: LiveConnection, connection: EmbeddingProvider) -> EmbeddingBatches:
        with self._lock:
            return self._batches.setdefault(live, EmbeddingBatches(connection))


def connection_of(info: CollectionInfo) -> str:
    """Return the connection whose model made a collection's vectors: what its metadata name, else the usual one."""
    return recorded_connection(info.metadata) or USUAL


def not_in_time(connection: str) -> str:
    """Return why a collection is not asked whose connection hangs."""
    return f"Connection '{connection}' has not embedded the question in time"


class AskedEmbeddings:
    """The embeddings of one question by the connections of the collections that it is asked of; safe for use by several
    threads. `make` embeds it by a connection, one of several in `threads`."""

    def __init__(self, make: Callable[[str], QueryEmbedding], threads: ConnectionThreads) -> None:
        self._make = make
        self._threads = threads
        self._lock = threading.Lock()
        self._asked: dict[str, AskedEmbedding] = {}

    def of(self, info: CollectionInfo) -> QueryEmbedding:
        """Return the embedding for a collection; by the usual connection where the collection's own is not here.

        Raises what `QueryEmbeddings.embed` raises, the same for all who want it, and UnavailableError when the caller's
        deadline passes.
        """
        try:
            return self._by(connection_of(info)).get()
        except ConnectionNotFoundError:
            return self._by(USUAL).get()

    def made_of(self, info: CollectionInfo) -> QueryEmbedding | None:
        """Return the embedding for a collection as far as it was made, None when nobody wanted it or it failed."""
        asked = self._by(connection_of(info))
        return self._by(USUAL).made if asked.is_nowhere else asked.made

    def as_embedded(self, infos: Sequence[CollectionInfo], until: float = math.inf) -> Iterator[CollectionInfo]:
        """Yield the collections as their embeddings come: those of each connection when it has embedded the question or
        failed, and the others when the caller's deadline passes, or `until`, in seconds of the monotonic clock.

        Several connections embed at the same time. A lonely one is asked by whoever wants its embedding.
        """
        by_connection: dict[str, list[CollectionInfo]] = {}
        for info in infos:
            by_connection.setdefault(connection_of(info), []).append(info)
        if len(by_connection) < 2:
            yield from infos
            return
        waiting = {self._begun(connection, until): of_it for connection, of_it in by_connection.items()}
        while waiting:
            seconds = max(0.0, min(deadlines.seconds_left(), until - time.monotonic()))
            answers = [each.answer for each in waiting]
            wait(answers, None if math.isinf(seconds) else seconds, return_when=FIRST_COMPLETED)
            ready = [each for each in waiting if each.answer.done()] or list(waiting)
            for each in ready:
                of_it = waiting.pop(each)
                if each.is_nowhere and each is not self._by(USUAL):
                    waiting.setdefault(self._begun(USUAL, until), []).extend(of_it)
                else:
                    yield from of_it

    @property
    def latency_ms(self) -> float | None:
        """How long the embedding took, by the slowest connection that made one; None while none has."""
        took = [each.latency_ms for each in self._asked.values() if each.latency_ms is not None]
        return max(took, default=None)

    def _begun(self, connection: str, until: float) -> AskedEmbedding:
        asked = self._by(connection)
        with deadlines.within(until - time.monotonic()):
            asked.begin(self._threads)
        return asked

    def _by(self, connection: str) -> AskedEmbedding:
        with self._lock:
            return self._asked.setdefault(connection, AskedEmbedding(connection, partial(self._make, connection)))


class AskedEmbedding:
    """The embedding of one question by a connection, made when it is first wanted and once for all who want it, in any
    thread. `answer` is its future."""

    def __init__(self, connection: str, make: Callable[[], QueryEmbedding]) -> None:
        self._connection = connection
        self._make = make
        self._lock = threading.Lock()
        self._is_begun = False
        self.answer: Future[QueryEmbedding] = Future()
        self.latency_ms: float | None = None

    def get(self) -> QueryEmbedding:
        """Return the embedding, made in this thread unless it is being made already.

        Raises what `QueryEmbeddings.embed` raises, the same for all who want it, and UnavailableError when the caller's
        deadline passes.
        """
        if self._is_first():
            self._run()
        if deadlines.finished(self.answer):
            return self.answer.result()
        raise UnavailableError(not_in_time(self._connection), code=EMBEDDING_TIMEOUT, error_type="timeout")

    def begin(self, threads: ConnectionThreads) -> None:
        """Have the embedding made in another thread within the caller's deadline, unless it is being made already."""
        if not self._is_first():
            return
        until = time.monotonic() + deadlines.seconds_left()

        def run() -> None:
            with deadlines.within(until - time.monotonic()):
                self._run()

        try:
            threads.submit(self._connection, run)
        except RagError as error:
            self.answer.set_exception(error)

    @property
    def made(self) -> QueryEmbedding | None:
        """The embedding as far as it was made, None when nobody wanted it or it failed."""
        return self.answer.result() if self.answer.done() and self.answer.exception() is None else None

    @property
    def is_nowhere(self) -> bool:
        """Whether there turned out to be no such connection."""
        return self.answer.done() and isinstance(self.answer.exception(), ConnectionNotFoundError)

    def _is_first(self) -> bool:
        with self._lock:
            is_first, self._is_begun = not self._is_begun, True
            return is_first

    def _run(self) -> None:
        try:
            began = time.monotonic()
            made = self._make()
            self.latency_ms = round((time.monotonic() - began) * 1e3, 2)
            self.answer.set_result(made)
        except BaseException as error:
            self.answer.set_exception(error)
