"""Files of codes, which all processes of a service map into their memory: one copy for all of them.

A file holds the codes of a collection at one revision. It is made under another name, gets its own when it is complete,
and never changes after that; what has been written to the collection since is each process's own to know. So a process
that is killed at any moment leaves a whole file or none. Nothing here is the truth: a file that is missing, incomplete
or damaged is made anew from the catalogue.
"""

from __future__ import annotations

import errno
import fcntl
import math
import mmap
import os
import re
import secrets
import time
import zlib
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import structlog
from numpy.typing import NDArray

from wrapper.querying.base_codes import BaseCodes
from wrapper.querying.codes import FLOATS, Codes, fine_bytes
from wrapper.querying.leaves import Leaves

log = structlog.get_logger(__name__)

FORM = 1
"""The number of the form of the files, which a release that changes it raises."""
HEAD_BYTES = 4_096
"""The first page says what the file is, in JSON."""
ALIGNMENT = 64
CHECKED_AT_ONCE = 8 << 20
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
USED_SECONDS = 60.0
"""A file's time of change says when it was last used, to the minute."""
NAME = re.compile(r"([0-9a-f-]{36})\.([0-9]+)\.codes")


class CodeFiles:
    """The files in a folder, which take at most `max_bytes`: those used longest ago make room for new ones.

    `has_room` says whether the disk has room for so many bytes; `clock` tells the time since the epoch in seconds.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes: int = 0,
        has_room: Callable[[int], bool] = lambda _: True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._has_room = has_room
        self._clock = clock

    def open(self, collection_id: str, history: str, *, after: int, up_to: int) -> BaseCodes | None:
        """Return the newest codes of a collection of a revision after that one and up to that one, None when there are
        none.

        What is damaged or of another history is removed.
        """
        for found, path in sorted(self._of(collection_id), reverse=True):
            if not after < found <= up_to:
                continue
            try:
                opened = _opened(path, history)
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError) as error:
                log.warning("codes of vectors are made anew", collection_id=collection_id, reason=str(error))
                if not isinstance(error, OSError):  # then it is this process that cannot read it
                    path.unlink(missing_ok=True)
                continue
            self.used(opened)
            return opened
        return None

    def most_bytes(self, collection_id: str) -> int:
        """Return the size of the largest file of a collection, 0 when there is none."""
        sizes = [0]
        for _, path in self._of(collection_id):
            with suppress(OSError):
                sizes.append(path.stat().st_size)
        return max(sizes)

    @contextmanager
    def making(self, collection_id: str) -> Iterator[bool]:
        """Let one process at a time make codes of a collection. Gives False while another does."""
        lock = self._locked(collection_id)
        try:
            yield lock is not None
        finally:
            if lock is not None:
                os.close(lock)

    def _locked(self, collection_id: str) -> int | None:
        """Return the lock of a collection, which is held until it is closed; None while another process has it."""
        self._folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        path = self._folder / f"{collection_id}.lock"
        while True:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(lock)
                if isinstance(error, BlockingIOError):
                    return None
                raise
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), path.stat()):
                    return lock
            os.close(lock)  # it was removed before it was locked, which keeps nobody out

    @contextmanager
    def new(self, collection_id: str, layout: Layout) -> Iterator[Unfinished]:
        """Give a file to be filled, in the process that may make it; what is not finished in the block is removed.

        Raises OSError when the disk has no room.
        """
        self._forget_unfinished(collection_id)
        # A name of its own: whatever happens to locks, no file is cut that another process has mapped.
        incomplete = self._folder / f"{collection_id}.{secrets.token_hex(8)}.incomplete"
        self._make_room(layout.size)
        file = os.open(incomplete, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        try:
            yield Unfinished(file, incomplete, layout)
        finally:
            os.close(file)
            incomplete.unlink(missing_ok=True)

    def used(self, opened: BaseCodes) -> None:
        """Note that the file is in use."""
        now = self._clock()
        with suppress(OSError):
            if opened.path is not None and opened.path.stat().st_mtime < now - USED_SECONDS:
                os.utime(opened.path, (now, now))

    def forget(self, collection_id: str) -> bool:
        """Remove the files of a collection. Return False while a process makes one, which may be of what was in the
        collection before."""
        with self.making(collection_id) as is_alone:
            self.forget_before(collection_id)
            if is_alone:
                self._forget_unfinished(collection_id)
            return is_alone

    def forget_before(self, collection_id: str, revision: float = math.inf) -> None:
        """Remove the files of a collection that are of revisions before that one."""
        for found, path in self._of(collection_id):
            if found < revision:
                path.unlink(missing_ok=True)

    def collection_ids(self) -> set[str]:
        """Return the ids of the collections that have files of any kind."""
        return {_collection_of(path) for path in self._folder.glob("*")}

    def sweep(self, collection_ids: Set[str]) -> None:
        """Remove all files of these collections, which are gone, and what processes that were killed have left."""
        for path in self._folder.glob("*"):
            if _collection_of(path) in collection_ids:
                path.unlink(missing_ok=True)
        self._forget_killed()

    def _of(self, collection_id: str) -> list[tuple[int, Path]]:
        """Return (revision, path) of each file of a collection."""
        return [
            (int(match[2]), path)
            for path in self._folder.glob(f"{collection_id}.*.codes")
            if (match := NAME.fullmatch(path.name))
        ]

    def _forget_unfinished(self, collection_id: str) -> None:
        """Remove what processes that were killed have left of a collection's files, while no process makes one."""
        for left in self._folder.glob(f"{collection_id}.*.incomplete"):
            left.unlink(missing_ok=True)

    def _forget_killed(self) -> None:
        for collection_id in {_collection_of(path) for path in self._folder.glob("*.incomplete")}:
            with self.making(collection_id) as is_alone:
                if is_alone:
                    self._forget_unfinished(collection_id)

    def _make_room(self, needed_bytes: int) -> None:
        self._forget_killed()
        left_bytes = self._max_bytes - needed_bytes
        for path in self._folder.glob("*.incomplete"):
            with suppress(FileNotFoundError):
                left_bytes -= path.stat().st_size
        if left_bytes < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        found = []
        for path in self._folder.glob("*.codes"):
            with suppress(FileNotFoundError):
                state = path.stat()
                found.append((state.st_mtime, state.st_size, path))
        taken = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if taken <= left_bytes:
                break
            path.unlink(missing_ok=True)
            taken -= size
        if not self._has_room(needed_bytes):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Unfinished:
    """A file that is being filled."""

    def __init__(self, file: int, path: Path, layout: Layout) -> None:
        self._file, self._path, self._layout = file, path, layout
        # With room for all of it first: a process that writes to a page for which there is none is ended by the system.
        os.posix_fallocate(file, 0, layout.size)
        self._content = mmap.mmap(file, layout.size)

    def fill(self, made: BaseCodes, collection_id: str, history: str) -> BaseCodes:
        """Write the codes and give the file its name. Returns what is in it."""
        arrays = self._layout.arrays(self._content)
        codes, leaves = made.codes, made.leaves
        arrays["reference"][:] = codes.reference
        arrays["centres"][:], arrays["bounds"][:], arrays["spreads"][:] = leaves.centres, leaves.bounds, leaves.spreads
        arrays["positions"][:], arrays["by_position"][:] = made.positions, made.by_position
        arrays["numbers"][:], arrays["codes"][:], arrays["fine"][:] = codes.numbers, codes.codes, codes.fine
        head = {
            "form": FORM,
            "history": history,
            "revision": made.revision,
            "metric": codes.metric,
            "layout": asdict(self._layout),
            "largest_square": codes.largest_square,
            "checksum": _checksum(arrays["whole"]),
        }
        os.pwrite(self._file, _sealed(head), 0)
        path = self._path.with_name(f"{collection_id}.{made.revision}.codes")
        os.replace(self._path, path)
        return _opened(path, history, is_checked=True)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parts of a file are."""

    count: int
    dimension: int
    leaves: int = 0

    @staticmethod
    def of(made: BaseCodes) -> Layout:
        return Layout(len(made.positions), made.codes.codes.shape[1], len(made.leaves))

    @property
    def parts(self) -> list[tuple[str, Any, tuple[int, ...]]]:
        """(name, type, shape) of each part, in order."""
        n, d, m = self.count, self.dimension, self.leaves
        return [
            ("reference", np.float64, (d,)),
            ("centres", np.float32, (m, d)),
            ("bounds", np.int64, (m + 1,)),
            ("spreads", np.float32, (n if m else 0,)),
            ("positions", np.int64, (n,)),
            ("by_position", np.int32, (n,)),
            ("numbers", np.float32, (FLOATS, n)),
            ("codes", np.int8, (n, d)),
            ("fine", np.uint8, (n, fine_bytes(d))),
        ]

    @property
    def size(self) -> int:
        return HEAD_BYTES + sum(_aligned(_bytes_of(kind, shape)) for _, kind, shape in self.parts)

    def arrays(self, content: mmap.mmap) -> dict[str, NDArray[Any]]:
        """Return the parts as arrays over the content of a file, and `whole`, all bytes behind the head."""
        found: dict[str, NDArray[Any]] = {"whole": np.frombuffer(content, np.uint8, offset=HEAD_BYTES)}
        offset = HEAD_BYTES
        for name, kind, shape in self.parts:
            numbers = int(np.prod(shape))
            found[name] = np.frombuffer(content, kind, count=numbers, offset=offset).reshape(shape)
            offset += _aligned(_bytes_of(kind, shape))
        return found


def _opened(path: Path, history: str, *, is_checked: bool = False) -> BaseCodes:
    """Map a file. Raises ValueError when it is not whole or of another history, and OSError."""
    file = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(file).st_size
        if size < HEAD_BYTES:
            raise ValueError("the file is too short")
        content = mmap.mmap(file, size, access=mmap.ACCESS_READ)
    finally:
        os.close(file)
    head = _head(content[:HEAD_BYTES])
    if head["history"] != history:
        raise ValueError("it is of another history of the collection")
    layout = Layout(**head["layout"])
    if size != layout.size:
        raise ValueError("the file has another length than it says")
    arrays = layout.arrays(content)
    if not is_checked and _checksum(arrays["whole"]) != head["checksum"]:
        raise ValueError("its checksum is not the one of its content")
    codes = Codes(
        metric=head["metric"],
        reference=arrays["reference"],
        codes=arrays["codes"],
        fine=arrays["fine"],
        numbers=arrays["numbers"],
        largest_square=head["largest_square"],
    )
    whole, checksum = arrays["whole"], head["checksum"]
    return BaseCodes(
        revision=head["revision"],
        positions=arrays["positions"],
        by_position=arrays["by_position"],
        codes=codes,
        leaves=Leaves(arrays["centres"], arrays["bounds"], arrays["spreads"]),
        path=path,
        has_its_length=lambda: content.size() == size,
        is_whole=lambda: content.size() == size and _checksum(whole) == checksum,
    )


def _collection_of(path: Path) -> str:
    return path.name.split(".")[0]


def _sealed(head: dict[str, Any]) -> bytes:
    told = orjson.dumps(head)
    return (b"%08x" % zlib.crc32(told) + told).ljust(HEAD_BYTES, b"\n")


def _head(page: bytes) -> dict[str, Any]:
    told = page[8:].rstrip(b"\n")
    if page[:8] != b"%08x" % zlib.crc32(told):
        raise ValueError("its head is damaged")
    head: dict[str, Any] = orjson.loads(told)
    if head["form"] != FORM:
        raise ValueError("it has the form of another release")
    return head


def _checksum(content: NDArray[np.uint8]) -> int:
    found = 0
    for start in range(0, len(content), CHECKED_AT_ONCE):
        found = zlib.crc32(content[start : start + CHECKED_AT_ONCE].data, found)
    return found


def _bytes_of(kind: Any, shape: tuple[int, ...]) -> int:
    return int(np.prod(shape)) * np.dtype(kind).itemsize


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
