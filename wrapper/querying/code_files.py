"""Files of codes, which all processes of a service map into their memory: one copy for all of them.

A file holds the codes of a collection at one revision. It is made under another name, gets its own when it is complete,
and never changes after that; what has been written to the collection since is each process's own to know. So a process
that is killed at any moment leaves a whole file or none. Nothing here is the truth: a file that is missing, incomplete
or damaged is made anew from the catalogue.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import structlog
from numpy.typing import NDArray

from wrapper.querying.codes import FLOATS, Codes, Encoder, fine_bytes

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

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CodeFile:
    """The codes of a collection at a revision, and the documents' positions (n,), rising. `path` is that of its file,
    None where only this process has them."""

    revision: int
    positions: Positions
    codes: Codes
    path: Path | None = None
    is_whole: Callable[[], bool] = lambda: True
    """Compares what is mapped with its checksum, which takes a second for each gigabyte."""

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.positions.nbytes


class CodeFiles:
    """The files in a folder, which take at most `max_bytes`: those used longest ago make room for new ones.

    `has_room` says whether the disk has room for so many bytes; `clock` tells the time since the epoch in seconds.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes: int,
        has_room: Callable[[int], bool] = lambda _: True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._has_room = has_room
        self._clock = clock

    def open(self, collection_id: str, history: str, *, after: int, up_to: int) -> CodeFile | None:
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
            except (OSError, ValueError) as error:
                log.warning("codes of vectors are made anew", collection_id=collection_id, reason=str(error))
                path.unlink(missing_ok=True)
                continue
            self.used(opened)
            return opened
        return None

    @contextmanager
    def making(self, collection_id: str) -> Iterator[bool]:
        """Let one process at a time make codes of a collection. Gives False while another does."""
        self._folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        lock = os.open(self._folder / f"{collection_id}.lock", os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            os.close(lock)

    @contextmanager
    def new(self, collection_id: str, count: int, dimension: int) -> Iterator[Unfinished]:
        """Give a file to be filled, in the process that may make it; what is not finished in the block is removed.

        Raises OSError when the disk has no room.
        """
        incomplete = self._folder / f"{collection_id}.incomplete"
        self._make_room(Layout(count, dimension).size)
        file = os.open(incomplete, os.O_RDWR | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
        try:
            yield Unfinished(file, incomplete, Layout(count, dimension))
        finally:
            os.close(file)
            incomplete.unlink(missing_ok=True)

    def used(self, opened: CodeFile) -> None:
        """Note that the file is in use."""
        now = self._clock()
        with suppress(OSError):
            if opened.path is not None and opened.path.stat().st_mtime < now - USED_SECONDS:
                os.utime(opened.path, (now, now))

    def forget(self, collection_id: str, *, before: int | None = None) -> None:
        """Remove the files of a collection, or those of revisions before that one."""
        for revision, path in self._of(collection_id):
            if before is None or revision < before:
                path.unlink(missing_ok=True)

    def sweep(self, collection_ids: Callable[[], Collection[str]]) -> None:
        """Remove the files of all collections but these, which are read after the folder: a new one's files stay."""
        found = list(self._folder.glob("*"))
        known = collection_ids() if found else ()
        for path in found:
            if path.name.split(".")[0] not in known:
                path.unlink(missing_ok=True)

    def _of(self, collection_id: str) -> list[tuple[int, Path]]:
        """Return (revision, path) of each file of a collection."""
        return [
            (int(match[2]), path)
            for path in self._folder.glob(f"{collection_id}.*.codes")
            if (match := NAME.fullmatch(path.name))
        ]

    def _make_room(self, needed_bytes: int) -> None:
        found = []
        for path in self._folder.glob("*.codes"):
            with suppress(FileNotFoundError):
                state = path.stat()
                found.append((state.st_mtime, state.st_size, path))
        taken = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if taken + needed_bytes <= self._max_bytes:
                break
            path.unlink(missing_ok=True)
            taken -= size
        if not self._has_room(needed_bytes):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Unfinished:
    """A file that is being filled: `positions`, and what an encoder of `reference` writes."""

    def __init__(self, file: int, path: Path, layout: Layout) -> None:
        self._file, self._path, self._layout = file, path, layout
        # With room for all of it first: a process that writes to a page for which there is none is ended by the system.
        os.posix_fallocate(file, 0, layout.size)
        self._arrays = layout.arrays(mmap.mmap(file, layout.size))
        self.positions: Positions = self._arrays["positions"]

    def encoder(self, metric: str, reference: NDArray[np.float64]) -> Encoder:
        self._arrays["reference"][:] = reference
        arrays = self._arrays
        return Encoder(metric, arrays["reference"], arrays["codes"], arrays["fine"], arrays["numbers"])

    def finish(self, encoder: Encoder, collection_id: str, history: str, revision: int) -> CodeFile:
        """Give the file its name. Returns what is in it."""
        codes = encoder.codes()
        head = {
            "form": FORM,
            "history": history,
            "revision": revision,
            "metric": codes.metric,
            "count": self._layout.count,
            "dimension": self._layout.dimension,
            "largest_square": codes.largest_square,
            "checksum": _checksum(self._arrays["whole"]),
        }
        os.pwrite(self._file, _sealed(head), 0)
        path = self._path.with_name(f"{collection_id}.{revision}.codes")
        os.replace(self._path, path)
        return _opened(path, history, is_checked=True)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parts of a file are."""

    count: int
    dimension: int

    @property
    def parts(self) -> list[tuple[str, Any, tuple[int, ...]]]:
        """(name, type, shape) of each part, in order."""
        n, d = self.count, self.dimension
        return [
            ("reference", np.float64, (d,)),
            ("positions", np.int64, (n,)),
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


def _opened(path: Path, history: str, *, is_checked: bool = False) -> CodeFile:
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
    layout = Layout(head["count"], head["dimension"])
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
    return CodeFile(head["revision"], arrays["positions"], codes, path, lambda: _checksum(whole) == checksum)


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
