"""Disk space that is set aside behind the end of a file, so that what is appended there fits although the disk is full.

This is Linux's `fallocate` with `FALLOC_FL_KEEP_SIZE`, which Python lacks: `os.posix_fallocate` makes the file longer,
and readers would find zeros at its end. ext4, XFS, Btrfs and tmpfs have it; ZFS accepts the call and sets nothing
aside.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any

KEEP_SIZE = 1
BLOCK_BYTES = 512
"""The unit of `st_blocks`, whatever the file system."""


def set_aside(descriptor: int, start: int, length: int) -> bool:
    """Set `length` bytes aside from `start` on; return False where the file system cannot.

    Raises OSError when there is no room.
    """
    fallocate = _fallocate()
    if fallocate is None:
        return False
    number = errno.EINTR
    while number == errno.EINTR:
        if fallocate(descriptor, KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(length)) == 0:
            return True
        number = ctypes.get_errno()
    if number in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(number, os.strerror(number))


def room_in(found: os.stat_result) -> int:
    """Return the bytes that are set aside behind the end of a file; less than zero for one with holes."""
    return found.st_blocks * BLOCK_BYTES - found.st_size


def give_back(descriptor: int, size: int) -> None:
    """Give back what is set aside behind the end of a file of this size."""
    os.ftruncate(descriptor, size)


@cache
def _fallocate() -> Any:
    try:
        return ctypes.CDLL(None, use_errno=True).fallocate
    except (AttributeError, OSError):
        return None
