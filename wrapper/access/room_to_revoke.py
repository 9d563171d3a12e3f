"""A file of nothing, whose room is for the revocation of a key on a disk that is full to the last byte: SQLite needs a
few pages for any change."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

FILE_NAME = "room-to-revoke"
SHARE_BYTES = 1 << 17
"""What one revocation is given, several times what it needs: others may be quicker to take it."""
ROOM_BYTES = 16 * SHARE_BYTES


class RoomToRevoke:
    """The room beside a catalogue that is a file, for several processes; a database server keeps none."""

    def __init__(self, catalogue: Path | None) -> None:
        self._path = None if catalogue is None else catalogue.with_name(FILE_NAME)

    def keep(self) -> None:
        """Set the room aside unless it is. What cannot be had on a full disk is tried again by the next call."""
        if self._path is None:
            return
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(descriptor).st_size < ROOM_BYTES:
                    os.posix_fallocate(descriptor, 0, ROOM_BYTES)
            finally:
                os.close(descriptor)

    def give(self) -> bool:
        """Give a share of the room to the disk. Return False when none is left, or none was set aside."""
        if self._path is None:
            return False
        try:
            had = self._path.stat().st_size
            os.truncate(self._path, max(0, had - SHARE_BYTES))
        except OSError:
            return False
        return had > 0
