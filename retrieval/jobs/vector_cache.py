"""The vectors of files whose embedding broke off, so that a service which takes a few texts a minute gets on with every
try, and embeds none of them twice."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

import numpy as np

from providers.embeddings.base import EmbeddingProvider
from retrieval.ingest.collection_writer import batches
from schemas.records import Vector

MAX_BYTES = 64 * 1024 * 1024
"""The most bytes of vectors that wait in memory for another try of their files."""
BATCH_TEXTS = 32
"""The texts of one call of the embedding model: between two calls a job can be cancelled, or its owner's rights end."""

FileKey = tuple[str, int]
"""A job's id, and the number of a file in it."""
Known = dict[bytes, Vector]
"""Vectors by the digests of their texts."""


class VectorCache:
    """In memory only, and for as long as there is room; safe for several threads, each with another file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[FileKey, tuple[EmbeddingProvider, Known]] = {}  # the one begun longest ago first

    def embed(
        self,
        file: FileKey,
        embedding: EmbeddingProvider,
        texts: list[str],
        ask: Callable[[list[str]], Vector],
        gained: Callable[[], object],
        *,
        tries: int = 0,
    ) -> Vector:
        """Return a vector for each text of a file. `ask` is asked for those that no try before has embedded, and
        `gained` is called after each time. After several `tries` that embedded nothing it is asked for ever fewer at a
        time, since a service may take no more. Raises what `ask` raises."""
        with self._lock:
            by, known = self._files.pop(file, (embedding, {}))
            known = known if by is embedding else {}  # else the connection was changed
            self._files[file] = embedding, known
        parts = []
        for batch in batches(texts, max(1, BATCH_TEXTS >> 2 * max(0, tries - 1))):
            digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in batch]
            missing = {digest: text for digest, text in zip(digests, batch, strict=True) if digest not in known}
            if missing:
                vectors = ask([*missing.values()])
                with self._lock:
                    known.update(zip(missing, vectors, strict=True))
                    while sum(_size_bytes(each) for _, each in self._files.values()) > MAX_BYTES:
                        del self._files[next(iter(self._files))]
                gained()
            parts += [known[digest] for digest in digests]
        return np.stack(parts)

    def forget(self, file: FileKey) -> None:
        with self._lock:
            self._files.pop(file, None)


def _size_bytes(known: Known) -> int:
    return len(known) * next((each.nbytes for each in known.values()), 0)  # those of a file are of one model
