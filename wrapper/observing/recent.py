"""The requests of the last hour by minute and kind, of all workers together, in a file that they share.

Each worker writes in a place of its own, so none waits for another. A place is kept by a lock on one byte of the file,
which ends with the process; a worker that takes the place of one that has ended counts on from there.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from schemas.observing.recent import KINDS, Latencies, Minute

MINUTES = 60
FIRST_MS, FACTOR, BINS = 0.5, 1.4, 40
"""Latencies are counted in bins, each this much wider than the one before: to 17 % exact, from 0.5 ms to 5 minutes."""
FILE_NAME = "recent-requests"
_REQUESTS, _ERRORS, _FIRST_BIN = 0, 1, 2
_FIELDS = _FIRST_BIN + BINS
_KIND_OF = {kind: number for number, kind in enumerate(KINDS)}
_LOG_FACTOR = math.log(FACTOR)


class RecentRequests:
    """Counts requests of this process, and tells of those of all processes that share `folder`.

    Without a folder, or where its disk has no room, this process is alone.
    """

    def __init__(self, folder: Path | None, places: int, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._file: int | None = None
        shape = (places, MINUTES)
        # A minute since 1970 for each place and slot, and then the numbers.
        stamps, numbers = math.prod(shape) * 8, math.prod(shape) * len(KINDS) * _FIELDS * 4
        content = self._shared(folder, stamps + numbers) if folder is not None else None
        place = self._take_place(places) if content is not None else None
        if content is None or place is None:
            content, place = mmap.mmap(-1, stamps + numbers), 0
        self._stamps = np.frombuffer(content, np.int64, math.prod(shape)).reshape(shape)
        self._numbers = np.frombuffer(content, np.uint32, offset=stamps).reshape(*shape, len(KINDS), _FIELDS)
        self._my_stamps, self._mine = self._stamps[place], self._numbers[place]

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def count(self, kind: str, seconds: float, *, failed: bool) -> None:
        """Count a request of one of `KINDS`."""
        minute = int(self._clock() // 60)
        slot = minute % MINUTES
        longer = seconds * 1e3 / FIRST_MS
        bin_number = 0 if longer <= 1 else min(BINS - 1, math.ceil(math.log(longer) / _LOG_FACTOR))
        with self._lock:
            if self._my_stamps[slot] != minute:
                self._mine[slot] = 0
                self._my_stamps[slot] = minute
            row = self._mine[slot, _KIND_OF[kind]]
            row[_REQUESTS] += 1
            row[_FIRST_BIN + bin_number] += 1
            if failed:
                row[_ERRORS] += 1

    def minutes(self) -> list[Minute]:
        """Return the last 60 minutes, the oldest first and the one that is not over last."""
        return list(self._minutes())

    def _minutes(self) -> Iterator[Minute]:
        now = int(self._clock() // 60)
        for minute in range(now - MINUTES + 1, now + 1):
            slot = minute % MINUTES
            counted = self._numbers[self._stamps[:, slot] == minute, slot].sum(axis=0, dtype=np.int64)
            by_kind = {kind: _latencies(counted[number]) for number, kind in enumerate(KINDS)}
            yield Minute(minute * 60, _latencies(counted.sum(axis=0)), {k: v for k, v in by_kind.items() if v.requests})

    def _shared(self, folder: Path, size_bytes: int) -> mmap.mmap | None:
        try:
            self._file = os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # Written to where the disk has no room, a file in memory would end the process.
            os.posix_fallocate(self._file, 0, size_bytes)
            return mmap.mmap(self._file, size_bytes)
        except OSError:
            self.close()
            return None

    def _take_place(self, places: int) -> int | None:
        assert self._file is not None
        for place in range(places):
            with suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                return place
        return None


def _latencies(row: Sequence[int]) -> Latencies:
    requests = int(row[_REQUESTS])
    bins = [int(each) for each in row[_FIRST_BIN:]]
    return Latencies(requests, int(row[_ERRORS]), _percentile(bins, 50), _percentile(bins, 95))


def _percentile(bins: list[int], percent: int) -> float | None:
    """Return the p-th percentile by nearest rank, as the middle of its bin; None where nothing was counted."""
    rank = -(-percent * sum(bins) // 100)
    seen = 0
    for number, count in enumerate(bins):
        seen += count
        if count and seen >= rank:
            return round(float(FIRST_MS * FACTOR ** (number - 0.5)), 2)
    return None
