"""Cache of query embeddings: each is made once for all collections of a query, for all who ask at the same time, and
for those who ask again while it is fresh (contract *storage*, "Embedding Cache Efficiency").

Callers with views of their own share none: the receipt, or the time it takes, would tell what others have asked.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import numpy as np
import orjson
import structlog
from cachetools import TTLCache

from providers.outbound import deadlines
from registry.embedding.batches import EMBEDDING_TIMEOUT, embedding_timeout
from schemas.errors import AccessError, ClientGoneError, UnavailableError
from schemas.records import Vector

log = structlog.get_logger(__name__)

MAX_ENTRIES = 4_096


class EmbeddingKey(NamedTuple):
    """The origin of an embedding; `made_by` tells two configurations of one connection apart, and `view` is that of its
    callers (`Caller.view`)."""

    connection_id: str
    made_by: str
    model: str
    text: str
    view: str = ""

    @property
    def name(self) -> str:
        """`connectionId:model`, as the contract *storage* writes it."""
        return f"{self.connection_id}:{self.model}"

    @property
    def digest(self) -> str:
        return hashlib.sha256(orjson.dumps(list(self))).hexdigest()


class SharedVectors(Protocol):
    """Vectors that the workers of one service share; they may be lost at any time."""

    def find(self, digest: str) -> Vector | None: ...

    def cleared_at(self) -> int: ...

    def keep(self, digest: str, vector: Vector, *, since: int) -> None: ...

    def one_at_a_time(self, digest: str) -> AbstractContextManager[None]:
        """Hold the digest's lock, which one process has at a time."""


class NotShared:
    """Shares nothing: for a service of a single process."""

    def find(self, digest: str) -> Vector | None:
        return None

    def cleared_at(self) -> int:
        return 0

    def keep(self, digest: str, vector: Vector, *, since: int) -> None:
        """Do nothing: no other process would look for the vector."""

    def one_at_a_time(self, digest: str) -> AbstractContextManager[None]:
        return nullcontext()


class EmbeddingCache:
    """Keeps at most `max_entries` vectors for at most `ttl_seconds`; they are read-only, float32 (dimension,)."""

    def __init__(
        self,
        shared: SharedVectors | None = None,
        *,
        ttl_seconds: float,
        max_entries: int = MAX_ENTRIES,
        clock: Callable[[], float] = time.monotonic,
        told: Callable[[bool], object] = lambda made: None,
    ) -> None:
        """`told` is called with whether an embedding that was asked for had to be made."""
        self._told = told
        self._shared = shared or NotShared()
        self._kept: TTLCache[str, Vector] = TTLCache(max_entries, ttl_seconds, timer=clock)
        self._asked: dict[str, Future[Vector]] = {}
        self._lock = threading.Lock()

    def get(self, key: EmbeddingKey, make: Callable[[], Vector]) -> tuple[Vector, bool]:
        """Return (the embedding, whether it had to be made for this call).

        When several threads ask at once, one of them makes the embedding and the others get the same result. They get
        its error too, unless it only ran out of a shorter time than theirs or is about its own caller. Raises what
        `make` raises, UnavailableError when the caller's deadline passes, and ClientGoneError when their client leaves.
        """
        while True:
            try:
                vector, made = self._get(key, make)
                self._told(made)
                return vector, made
            except _FailureOfAnother:
                continue

    def _get(self, key: EmbeddingKey, make: Callable[[], Vector]) -> tuple[Vector, bool]:
        digest = key.digest
        with self._lock:
            if digest in self._kept:
                log.info("embedding cache hit", key=key.name)
                return self._kept[digest], False
            waiting = self._asked.get(digest)
            if waiting is None:
                mine = self._asked[digest] = Future()
        if waiting is not None:
            found = _result(waiting)
            log.info("embedding cache hit", key=key.name, waiting=True)
            return found, False
        try:
            vector, made = self._find_or_make(digest, make)
        except BaseException as error:
            mine.set_exception(error)
            with self._lock:
                del self._asked[digest]
            raise
        with self._lock:
            self._kept[digest] = vector
            del self._asked[digest]
        mine.set_result(vector)
        log.info("embedding cache miss" if made else "embedding cache hit", key=key.name)
        return vector, made

    def _find_or_make(self, digest: str, make: Callable[[], Vector]) -> tuple[Vector, bool]:
        with self._shared.one_at_a_time(digest):
            found = self._shared.find(digest)
            if found is not None:
                return found, False
            if not deadlines.seconds_left():
                raise embedding_timeout(0)
            cleared_at = self._shared.cleared_at()
            vector = np.ascontiguousarray(make(), dtype=np.float32)
            vector.setflags(write=False)
            self._shared.keep(digest, vector, since=cleared_at)
            return vector, True


class _FailureOfAnother(Exception):
    """The thread that was to make the embedding had less time than the thread that waits for it, or worked for a caller
    who has left, may not go on or may have no more texts embedded."""


def _result(waiting: Future[Vector]) -> Vector:
    seconds_left = deadlines.seconds_left()
    if not deadlines.finished(waiting):
        raise embedding_timeout(seconds_left)
    try:
        return waiting.result()
    except (AccessError, ClientGoneError):
        raise _FailureOfAnother from None
    except UnavailableError as error:
        if error.code == EMBEDDING_TIMEOUT and deadlines.seconds_left():
            raise _FailureOfAnother from None
        raise
