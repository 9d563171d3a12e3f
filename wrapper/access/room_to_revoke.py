"""A file of nothing, whose room is for the revocation of a key on a disk that is full to the last byte: SQLite needs a
few pages for any change."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

FILE_NAME = "room-to-revoke"
ROOM_BYTES = 1 << 20
"""Many times what a revocation needs, because others may be quicker to take what is given back."""


class RoomToRevoke:
    """The room of one data directory, for several processes."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE_NAME

    def keep(self) -> None:
        """Set the room aside unless it is. What cannot be had on a full disk is tried again by the next call."""
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(descriptor).st_size < ROOM_BYTES:
                    os.posix_fallocate(descriptor, 0, ROOM_BYTES)
            finally:
                os.close(descriptor)

    def give(self) -> bool:
        """Give the room to the disk. Return False when none was set aside."""
        try:
            had = self._path.stat().st_size
            os.truncate(self._path, 0)
        except OSError:
            return False
        return had > 0
