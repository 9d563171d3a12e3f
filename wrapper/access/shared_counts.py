"""What the workers of a service count together: a small file that each of them has in its memory.

Two tables. The one of buckets has a number for each caller: the time at which what they used up will have come back.
The other has a part for each worker, with the requests that it has under way by caller. Nothing here outgrows the file:
both tables have a fixed size, and callers are known by a hash of 64 bits.

A part belongs to the process that locks a byte of the file for as long as it lives. The kernel frees the lock when the
process ends, however it ends, and whoever counts next empties the part.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

SETS, WAYS = 4_096, 8
"""Callers whose hashes fall into one set share its places. With 10,000 callers at a time a set is as good as never
full."""
PARTS, CELLS, PROBES = 64, 2_048, 16
"""The most processes that count requests under way, the places of each, and how many of these a caller may be at."""
LAYOUT = 1
_WORD = 8
FILE_BYTES = _WORD * (1 + PARTS + 2 * SETS * WAYS + 2 * PARTS * CELLS)
_NOBODY = 0
_TURN, _FIRST_PART, _LAYING_OUT = 0, 1, 1 + PARTS
"""Bytes of the file that processes lock: to count, one for each part, and to lay the file out."""
TURN_SECONDS, PAUSE_SECONDS = 0.1, 0.0002
"""The longest that a process waits for another one that is counting, which takes microseconds unless it was stopped in
between. Then it counts without its turn."""


class SharedCounts:
    """The counts of one service. Each process opens the file once, after it was forked.

    Where there is no room for the file, each process counts for itself and says so in the log.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        """The clock of all times here, which all processes of the machine share."""
        self._turn = _Turn()
        self._file: int | None = None
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._turn.file = self._file
            # Until it is laid out, nobody can count in it: so this is waited for without a limit.
            fcntl.lockf(self._file, fcntl.LOCK_EX, 1, _LAYING_OUT)
            try:
                _lay_out(self._file)
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _LAYING_OUT)
            content = memoryview(mmap.mmap(self._file, FILE_BYTES))
        except OSError as error:
            log.warning("each worker counts the requests of a key for itself", reason=error.strerror)
            self._forget_file()
            content = memoryview(mmap.mmap(-1, FILE_BYTES))
        _, taken, keys, full_at, callers, requests = _columns(
            content, (1, PARTS, SETS * WAYS, SETS * WAYS, PARTS * CELLS, PARTS * CELLS)
        )
        self._taken, self._keys, self._full_at = taken.cast("Q"), keys.cast("Q"), full_at.cast("d")
        self._callers, self._requests = callers.cast("Q"), requests.cast("Q")
        self._part = self._take_part()

    def close(self) -> None:
        """Give back what requests of this process hold. The file stays."""
        with self._turn:
            if self._part is not None:
                self._empty(self._part)
                self._part = None
        self._forget_file()

    def spend(self, name: str, amount: int, *, most: int, seconds: float) -> bool:
        """Take an amount out of a bucket that holds `most` and fills up evenly in so many seconds.

        Return False, and take nothing, when there is less in it.
        """
        key = _hashed(name)
        with self._turn:
            now = self.clock()
            place = self._bucket(key, now)
            full_at = self._full_from(place, key, now, seconds) + amount * seconds / most
            if full_at - now > seconds * (1 + 1e-9):
                return False
            self._keys[place], self._full_at[place] = key, full_at
            return True

    def seconds_to_full(self, name: str, seconds: float) -> float:
        """Return when a bucket will be full that fills up in so many seconds, 0 when it is full."""
        key, now = _hashed(name), self.clock()
        return self._full_from(self._bucket(key, now), key, now, seconds) - now

    def begin(self, name: str, most: int) -> int | None:
        """Count a request that is under way. Return how many there were before, None when these were `most`: then it
        is not counted."""
        key = _hashed(name)
        with self._turn:
            there = self._under_way(key)
            if there >= most and self._free_parts_of_the_dead(key):
                there = self._under_way(key)
            if there >= most:
                return None
            self._add(key, 1)
            return there

    def end(self, name: str) -> None:
        """Count a request less, which this process has begun."""
        with self._turn:
            self._add(_hashed(name), -1)

    def under_way(self, name: str) -> int:
        """Return the number of requests that are under way, those of workers that were killed included until
        somebody is at the limit."""
        return self._under_way(_hashed(name))

    def _bucket(self, key: int, now: float) -> int:
        """Return the place of a key's bucket or, when it has none, the one that loses least: a bucket that is full
        need not be remembered."""
        first = key % SETS * WAYS
        there = self._keys[first : first + WAYS].tolist()
        if key in there:
            return first + there.index(key)
        return min(range(first, first + WAYS), key=lambda place: max(now, self._full_at[place]))

    def _full_from(self, place: int, key: int, now: float, seconds: float) -> float:
        if self._keys[place] != key:
            return now
        # No bucket takes longer to fill up: else the clock began anew, or a process was killed while it wrote.
        full_at = self._full_at[place]
        return full_at if now < full_at <= now + seconds * (1 + 1e-9) else now

    def _under_way(self, key: int) -> int:
        places = [self._place(part, key) for part, taken in enumerate(self._taken.tolist()) if taken]
        return sum(self._requests[place] for place in places if place is not None)

    def _place(self, part: int, wanted: int, of: int | None = None) -> int | None:
        """Return where a part has the number `wanted` among the places of the key `of`, usually the same."""
        first = part * CELLS + (wanted if of is None else of) % (CELLS - PROBES)
        there = self._callers[first : first + PROBES].tolist()
        return first + there.index(wanted) if wanted in there else None

    def _add(self, key: int, number: int) -> None:
        if self._part is None:
            return
        place = self._place(self._part, key)
        if place is None:
            place = self._place(self._part, _NOBODY, key)
            if number < 0 or place is None:
                return
            self._callers[place] = key
        self._requests[place] = left = max(0, self._requests[place] + number)
        if not left:
            self._callers[place] = _NOBODY

    def _free_parts_of_the_dead(self, key: int) -> bool:
        """Empty the parts of processes that have ended, of those in which a key is counted."""
        freed = False
        for part in range(PARTS):
            if part != self._part and self._place(part, key) is not None and self._lock_part(part):
                self._empty(part)
                self._unlock_part(part)
                freed = True
        return freed

    def _take_part(self) -> int | None:
        with self._turn:
            for part in range(PARTS):
                if self._lock_part(part):
                    self._empty(part)
                    self._taken[part] = os.getpid()
                    return part
        log.warning("there are too many workers to count the requests that are under way", workers=PARTS)
        return None

    def _empty(self, part: int) -> None:
        self._taken[part] = _NOBODY
        for column in (self._callers, self._requests):
            column[part * CELLS : (part + 1) * CELLS] = memoryview(bytes(_WORD * CELLS)).cast("Q")

    def _lock_part(self, part: int) -> bool:
        if self._file is None:
            return True
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _FIRST_PART + part)
        except OSError:
            return False
        return True

    def _unlock_part(self, part: int) -> None:
        if self._file is not None:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _FIRST_PART + part)

    def _forget_file(self) -> None:
        file, self._file, self._turn.file = self._file, None, None
        if file is not None:
            os.close(file)


def _lay_out(file: int) -> None:
    """Make the file what this release counts in. All of it is written, because a file with holes on a full disk would
    end the process that first wrote to one."""
    head = LAYOUT.to_bytes(_WORD, "little")
    if os.fstat(file).st_size == FILE_BYTES and os.pread(file, _WORD, 0) == head:
        return
    os.ftruncate(file, 0)
    empty = bytes(FILE_BYTES)
    if os.pwrite(file, empty, 0) != FILE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.pwrite(file, head, 0)


def _columns(content: memoryview, sizes: Iterable[int]) -> Iterator[memoryview]:
    start = 0
    for size in sizes:
        yield content[_WORD * start : _WORD * (start + size)]
        start += size


class _Turn:
    """The right to count, which one thread of one process has at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.file: int | None = None

    def __enter__(self) -> None:
        self._lock.acquire()
        if self.file is not None:
            try:
                fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _TURN)
            except OSError:
                self._wait(self.file)

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            fcntl.lockf(self.file, fcntl.LOCK_UN, 1, _TURN)  # harmless without its turn
        self._lock.release()

    def _wait(self, file: int) -> None:
        until = time.monotonic() + TURN_SECONDS
        while time.monotonic() < until:
            time.sleep(PAUSE_SECONDS)
            with suppress(OSError):
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _TURN)
                return
        log.warning("a worker counts without its turn, because another one holds it")


def _hashed(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") or 1
