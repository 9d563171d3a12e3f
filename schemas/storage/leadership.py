"""The choice of the one process of a service that does the work which only one may do."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Protocol


class Leadership(Protocol):
    @property
    def held(self) -> bool: ...

    def acquire(self) -> bool:
        """Try to become the leader, without waiting. Return whether this process leads."""

    def confirm(self) -> bool:
        """Return whether this process has led without a break until now. After False it does not lead."""

    def release(self) -> None: ...


class FileLeadership:
    """The lead as a lock on a file, which the kernel frees when the process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def acquire(self) -> bool:
        if self._descriptor is not None:
            return True
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def confirm(self) -> bool:
        return self.held

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
