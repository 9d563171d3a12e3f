"""Embeddings of query texts, made once: for all collections of a query, for all who ask at the same time, and for those
who ask again while it is fresh (seed 003, "Embedding Cache Efficiency")."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTimeError
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import numpy as np
import orjson
import structlog
from cachetools import TTLCache

from providers import deadlines
from registry.embedding_batches import EMBEDDING_TIMEOUT, embedding_timeout
from schemas.errors import UnavailableError
from schemas.records import Vector

log = structlog.get_logger(__name__)

MAX_ENTRIES = 4_096


class EmbeddingKey(NamedTuple):
    """What an embedding belongs to. `made_by` tells two configurations of one connection apart."""

    connection_id: str
    made_by: str
    model: str
    text: str

    @property
    def name(self) -> str:
        """`connectionId:model`, as the seed writes it."""
        return f"{self.connection_id}:{self.model}"

    @property
    def digest(self) -> str:
        return hashlib.sha256(orjson.dumps(list(self))).hexdigest()


class SharedVectors(Protocol):
    """What the workers of one service keep in common; all of it may be lost at any time."""

    def find(self, digest: str) -> Vector | None: ...

    def keep(self, digest: str, vector: Vector) -> None: ...

    def one_at_a_time(self, digest: str) -> AbstractContextManager[None]:
        """Held by one process at a time."""


class NotShared:
    """For a process that is alone."""

    def find(self, digest: str) -> Vector | None:
        return None

    def keep(self, digest: str, vector: Vector) -> None:
        """Nobody else would look for it."""

    def one_at_a_time(self, digest: str) -> AbstractContextManager[None]:
        return nullcontext()


class EmbeddingCache:
    """At most `max_entries` for at most `ttl_seconds`. Vectors are float32 (dimension,), not to be changed."""

    def __init__(
        self,
        shared: SharedVectors | None = None,
        *,
        ttl_seconds: float,
        max_entries: int = MAX_ENTRIES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shared = shared or NotShared()
        self._kept: TTLCache[str, Vector] = TTLCache(max_entries, ttl_seconds, timer=clock)
        self._asked: dict[str, Future[Vector]] = {}
        self._lock = threading.Lock()

    def get(self, key: EmbeddingKey, make: Callable[[], Vector]) -> tuple[Vector, bool]:
        """(the embedding, whether it had to be made for this call). Of several who ask at once one makes it, and the
        others get what it gets, its error too, unless that only had less time. Raises what `make` raises, and
        UnavailableError when the deadline of the caller passes."""
        while True:
            try:
                return self._get(key, make)
            except _OutOfTimeOfAnother:
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
            vector = np.ascontiguousarray(make(), dtype=np.float32)
            vector.setflags(write=False)
            self._shared.keep(digest, vector)
            return vector, True


class _OutOfTimeOfAnother(Exception):
    """The one who was asking for all who wait had less time than this one."""


def _result(waiting: Future[Vector]) -> Vector:
    seconds_left = deadlines.seconds_left()
    try:
        return waiting.result(None if math.isinf(seconds_left) else seconds_left)
    except NotInTimeError:
        raise embedding_timeout(seconds_left) from None
    except UnavailableError as error:
        if error.code == EMBEDDING_TIMEOUT and deadlines.seconds_left():
            raise _OutOfTimeOfAnother from None
        raise
