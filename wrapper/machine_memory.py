"""How much memory the machine lets this service have."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where the system says what the processes of a container may take."""
SHARE_OF_VECTORS = 8
"""The vectors that are held may take an eighth of the memory."""


def memory_bytes() -> int:
    """Return the bytes of memory of the machine or, if that is less, of the container."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in LIMITS:
        with suppress(OSError, ValueError):  # "max" is no limit
            found.append(int(path.read_text()))
    return min(found)


def vectors_mb(setting: int | None) -> int:
    """Return the megabytes that held vectors may take: the setting, or without one a share of the memory."""
    return memory_bytes() // SHARE_OF_VECTORS // 2**20 if setting is None else setting
