"""Query embeddings that the workers of one machine share: one file each, named by a digest of its origin."""

from __future__ import annotations

import fcntl
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import structlog

from providers.outbound import deadlines
from registry.embedding.batches import embedding_timeout
from schemas.errors import ClientGoneError
from schemas.records import Vector
from schemas.storage import read_limits

log = structlog.get_logger(__name__)

LOCK_FILE = "lock"
SUFFIX = ".f32"
MAX_FILES = 20_000
SWEEP_SECONDS = 60.0
LOCK_POLL_SECONDS = 0.005


class VectorFiles:
    """Vectors in a directory of its own, which may be deleted at any time.

    A file older than `ttl_seconds` is not found. On a full disk nothing is kept, and nothing else happens.
    """

    def __init__(self, directory: Path, *, ttl_seconds: float, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._swept_at = clock()
        self._lock = threading.Lock()
        self._lock_file: tuple[int, int] | None = None

    def find(self, digest: str) -> Vector | None:
        path = self._path(digest)
        try:
            if self._clock() - path.stat().st_mtime > self._ttl_seconds:
                return None
            vector = np.frombuffer(path.read_bytes(), dtype="<f4")
        except (OSError, ValueError):
            return None
        return vector if vector.size else None

    def cleared_at(self) -> int:
        """Return a number that is another one after the next removal of all vectors."""
        try:
            return (self._directory / LOCK_FILE).stat().st_mtime_ns
        except OSError:
            return 0

    def keep(self, digest: str, vector: Vector, *, since: int) -> None:
        """Keep a vector, unless all were removed after `cleared_at` was `since`."""
        try:
            try:
                self._write(digest, vector)
            except FileNotFoundError:
                self._directory.mkdir(parents=True, exist_ok=True)
                self._write(digest, vector)
            if self.cleared_at() != since:
                self._path(digest).unlink(missing_ok=True)
            self._sweep()
        except OSError as error:
            log.warning("an embedding could not be kept", reason=str(error))

    def clear(self) -> int:
        """Remove all vectors, those too that are being made, and return their number."""
        removed = 0
        with suppress(FileNotFoundError):
            # The kernel's own time stands still for milliseconds.
            os.utime(self._directory / LOCK_FILE, ns=(time.time_ns(), time.time_ns()))
        with suppress(FileNotFoundError):
            for each in os.scandir(self._directory):
                if each.name != LOCK_FILE:
                    with suppress(FileNotFoundError):
                        os.unlink(each.path)
                        removed += 1
        return removed

    @contextmanager
    def one_at_a_time(self, digest: str) -> Iterator[None]:
        """Lock one byte of the lock file: there are as many locks as bytes, and no files to clean up.

        Two texts that share a byte wait for each other, which does no other harm.
        """
        byte = int(digest[:7], 16)
        try:
            descriptor = self._descriptor()
            _lock(descriptor, byte)
        except OSError as error:
            log.warning("workers cannot share embeddings", reason=str(error))
            yield
            return
        try:
            yield
        finally:
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, byte)

    def _write(self, digest: str, vector: Vector) -> None:
        # In one process one thread makes a vector, but where locks do not work another process may be making it too.
        incomplete = self._directory / f"{digest}.{os.getpid()}"
        incomplete.write_bytes(vector.astype("<f4").tobytes())
        os.utime(incomplete, (self._clock(), self._clock()))
        os.replace(incomplete, self._path(digest))

    def _descriptor(self) -> int:
        # POSIX drops all locks of a process on a file when it closes any descriptor of it, so one stays open for good.
        with self._lock:
            if self._lock_file is None or self._lock_file[0] != os.getpid():
                self._directory.mkdir(parents=True, exist_ok=True)
                opened = os.open(self._directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                self._lock_file = (os.getpid(), opened)
            return self._lock_file[1]

    def _path(self, digest: str) -> Path:
        return self._directory / (digest + SUFFIX)

    def _sweep(self) -> None:
        now = self._clock()
        with self._lock:
            if now - self._swept_at < SWEEP_SECONDS:
                return
            self._swept_at = now
        oldest_first = sorted(
            (each.stat().st_mtime, each.path) for each in os.scandir(self._directory) if each.name != LOCK_FILE
        )
        surplus = len(oldest_first) - MAX_FILES
        for number, (made_at, path) in enumerate(oldest_first):
            if number < surplus or now - made_at > self._ttl_seconds:
                with suppress(OSError):
                    os.unlink(path)


def _lock(descriptor: int, byte: int) -> None:
    """Wait for the lock until the caller's deadline. Raises UnavailableError when that passes, and ClientGoneError when
    their client leaves."""
    reads, looks_at = read_limits.current(), time.monotonic() + read_limits.LOOK_SECONDS
    if reads is None and math.isinf(deadlines.seconds_left()):
        fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, byte)
        return
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            return
        except (BlockingIOError, PermissionError):  # POSIX allows both errors for "held by another process"
            if not deadlines.seconds_left():
                raise embedding_timeout(0) from None
            if reads is not None and time.monotonic() > looks_at and reads.client_has_left():
                raise ClientGoneError from None
            time.sleep(LOCK_POLL_SECONDS)
