"""How much room the disk of the data directory has."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from schemas.errors import DiskFloorError

DISK_CHECK_SECONDS = 1.0


def free_disk_mb(path: Path) -> float:
    """Return the free megabytes of the disk that holds `path`."""
    return shutil.disk_usage(path).free / 2**20


def check_floor(free_mb: float, floor_mb: float) -> None:
    """Raise DiskFloorError when there is too little free disk space to write."""
    if free_mb < floor_mb:
        raise DiskFloorError("Free disk space is below the floor: writes are refused until there is more")


class FreeDisk:
    """Measures the free disk space in megabytes, at most once a second because every write asks for it."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._asked_at = float("-inf")
        self._megabytes = 0.0

    def __call__(self) -> float:
        now = self._clock()
        if now - self._asked_at >= DISK_CHECK_SECONDS:
            self._megabytes = free_disk_mb(self._path)
            self._asked_at = now
        return self._megabytes
