"""The vectors of files whose embedding broke off, so that a service which takes a few texts a minute gets on with every
try, and embeds none of them twice; and whether it is the texts of a file, or their number, that breaks it off."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np

from providers.embeddings.base import EmbeddingProvider
from providers.outbound import deadlines
from providers.outbound.call_sizes import PROBE
from retrieval.ingest.collection_writer import batches
from retrieval.ingest.embedding_texts import TextFailedError
from schemas.errors import UnavailableError
from schemas.records import Vector

MAX_BYTES = 64 * 1024 * 1024
"""The most bytes of vectors that wait in memory for another try of their files."""
BATCH_TEXTS = 32
"""The texts of one call of the embedding model: between two calls a job can be cancelled, or its owner's rights end."""

MAX_FAILURES = 3
"""The failures after which the service has been left alone for so long that it takes PROBE and the next text."""

FileKey = tuple[str, int]
"""A job's id, and the number of a file in it."""


@dataclass(slots=True)
class _File:
    """What is known of a file: its vectors, the most texts in a call for it, and how many failed in a row as if any
    other text would. When it `has_failed`, it `is_doubted` once others passed since, none of which had failed."""

    by: EmbeddingProvider
    known: dict[bytes, Vector] = field(default_factory=dict)
    most: int = BATCH_TEXTS
    failures: int = 0
    has_failed: bool = False
    is_doubted: bool = False


class VectorCache:
    """In memory only, and for as long as there is room; safe for several threads, each with another file."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._files: OrderedDict[FileKey, _File] = OrderedDict()

    def embed(
        self,
        file: FileKey,
        embedding: EmbeddingProvider,
        texts: list[str],
        ask: Callable[[list[str]], Vector],
        gained: Callable[[], object],
    ) -> Vector:
        """Return a vector for each text of a file. `ask` is asked for those that no try before has embedded, and
        `gained` is called after each time. The first failure of a text, or of many, may be the service's, which cannot
        be asked for another one now; where other files passed before the next try, or PROBE does after `MAX_FAILURES`,
        that asks once and for a quarter of them. Raises what `ask` raises, and TextFailedError when that fails for a
        text alone."""
        of = self._of(file, embedding)
        if of.has_failed and not of.is_doubted and of.failures >= MAX_FAILURES:
            self._asked(of, [PROBE], ask)
            of.is_doubted = True
        if of.has_failed and (of.is_doubted or of.most < BATCH_TEXTS):
            of.has_failed, of.most = False, max(1, of.most // 4)
        parts = []
        for batch in batches(texts, of.most):
            digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in batch]
            missing = {digest: text for digest, text in zip(digests, batch, strict=True) if digest not in of.known}
            if missing:
                of.known.update(zip(missing, self._asked(of, [*missing.values()], ask), strict=True))
                gained()
                self._forget_what_is_too_much()
            parts += [of.known[digest] for digest in digests]
        return np.stack(parts)

    def passed(self, file: FileKey, *, at_once: bool) -> None:
        """Note that a file was embedded, without a failure before or after one. The latter tells that other failures
        pass too."""
        with self._lock:
            by = self._files[file].by if file in self._files else None
            for each in self._files.values():
                if each.by is by and each.has_failed:
                    each.has_failed = each.is_doubted = at_once

    def _asked(self, of: _File, texts: list[str], ask: Callable[[list[str]], Vector]) -> Vector:
        try:
            with deadlines.single_attempts() if of.is_doubted else nullcontext():
                vectors = ask(texts)
        except TextFailedError:
            raise
        except UnavailableError as error:
            with self._lock:
                is_at_fault = of.is_doubted and len(texts) == 1
                of.has_failed, of.is_doubted, of.failures = True, False, of.failures + 1
            error.is_of_any_text = True
            if is_at_fault:
                raise TextFailedError(texts[0], error) from error
            raise
        of.failures = of.failures if texts == [PROBE] else 0
        return vectors

    def forget(self, file: FileKey) -> None:
        with self._lock:
            self._files.pop(file, None)

    def _of(self, file: FileKey, embedding: EmbeddingProvider) -> _File:
        with self._lock:
            of = self._files.pop(file, None)
            if of is None or of.by is not embedding:  # the connection was changed
                of = _File(embedding)
            self._files[file] = of
            return of

    def _forget_what_is_too_much(self) -> None:
        """Forget files until there is room, those first that were begun longest ago."""
        with self._lock:
            while sum(map(_size_bytes, self._files.values())) > self._max_bytes:
                self._files.popitem(last=False)


def _size_bytes(file: _File) -> int:
    return len(file.known) * next((each.nbytes for each in file.known.values()), 0)
