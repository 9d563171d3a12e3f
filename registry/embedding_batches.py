"""Texts that several threads want at the same time, embedded in one call: many cost little more than one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTimeError

from providers.embeddings.base import EmbeddingConnection
from schemas.errors import UnavailableError
from schemas.records import Vector

MAX_TEXTS = 32
"""Of one call; more would keep the first of them waiting for the last."""

_Wanted = tuple[str, "Future[Vector]"]


class EmbeddingBatches:
    """One connection's single texts. While as many calls run as it takes at a time (`parallel_calls`), texts gather in
    `waiting` for the next one."""

    def __init__(self, connection: EmbeddingConnection) -> None:
        self.connection = connection
        self._pool = ThreadPoolExecutor(connection.parallel_calls, thread_name_prefix="embedding-batch")
        self._lock = threading.Lock()
        self.waiting: list[_Wanted] = []
        self._running = 0

    def close(self) -> None:
        """Those who wait are still answered."""
        self._pool.shutdown(wait=False)

    def embed(self, text: str, within_seconds: float | None = None) -> Vector:
        """float32 (dimension,). Raises what `EmbeddingConnection.embed` raises for this text alone, and
        UnavailableError when there is no answer in time; nobody waits for it then."""
        wanted: Future[Vector] = Future()
        with self._lock:
            self.waiting.append((text, wanted))
            if self._running < self.connection.parallel_calls:
                self._running += 1
                self._pool.submit(self._run)
        try:
            return wanted.result(within_seconds)
        except NotInTimeError:
            if wanted.done():
                raise
            sentence = f"The embedding service '{self.connection.id}' gave no answer within {within_seconds:g} s"
            raise UnavailableError(sentence, code="embedding_timeout", error_type="timeout") from None

    def _run(self) -> None:
        while True:
            with self._lock:
                batch, self.waiting = self.waiting[:MAX_TEXTS], self.waiting[MAX_TEXTS:]
                if not batch:
                    self._running -= 1
                    return
            self._embed(batch)

    def _embed(self, batch: Sequence[_Wanted]) -> None:
        try:
            vectors = self.connection.embed([text for text, _ in batch])
        except BaseException as error:
            if len(batch) == 1:
                batch[0][1].set_exception(error)
                return
            # One text that is refused, or too many at once, is not the others' fault.
            for each in batch:
                self._embed([each])
            return
        for (_, wanted), vector in zip(batch, vectors, strict=True):
            wanted.set_result(vector)
