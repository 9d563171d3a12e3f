"""Appends to the audit log of a data directory, which threads, worker processes and commands share.

The newest file is the one that is written to. Whoever writes holds the lock file, so a line is written as a whole at
the end, by one call. A file that is finished loses its permission to be written, which is how other processes that have
it open find out. Nothing is ever deleted here: that is for the operator to do.

What must be recorded has its room before it begins. `check` makes sure that behind the end of the file there is space
for a line of every request that may be on its way, so that the line after a write fits although the disk filled
meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from schemas.access.credentials_in_text import Cleaner, without_credentials
from schemas.errors import AuditUnwritableError
from schemas.storage.audit import AuditEvent
from wrapper.audit.file_names import FileName, files_in
from wrapper.audit.lines import MAX_LINE_BYTES, to_line
from wrapper.audit.reserve import give_back, room_in, set_aside

FOLDER = "audit"
LOCK_FILE = "audit.lock"
FINISHED = 0o400
WRITTEN = 0o600
FOLDER_MODE = 0o700


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class _Open:
    """A file that this process has open. `node` tells it from another one that has its name by now."""

    name: FileName
    path: Path
    descriptor: int
    node: tuple[int, int]


class AuditLog:
    """The log in a folder, which is made with the first line. Threads may share it; forked processes open their own.

    A file that has `max_bytes` is finished and a new one is begun, and so it is at the end of the day in UTC.
    `requests_at_once` is the most requests, of all processes, that have been let through by `check` and are not
    recorded yet. `clean` cuts out of every text what must not be written down.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        requests_at_once: int,
        clean: Cleaner = without_credentials,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        self._needed_bytes = requests_at_once * MAX_LINE_BYTES
        self._clean = clean
        self._clock = clock
        self._mutex = threading.Lock()
        self._lock: int | None = None
        self._file: _Open | None = None

    def check(self) -> None:
        """Raise AuditUnwritableError when a line for each request on its way could not be written."""
        try:
            with self._mutex:
                if not self._has_room():
                    with self._locked():
                        self._make_room(*self._newest(self._clock().date()))
        except OSError as error:
            raise _unwritable(error) from error

    def append(self, event: AuditEvent, *, checked: bool) -> None:
        """Write the line of an event, with the time of now.

        One of a request that was not `checked` leaves alone what is set aside for those that were. Raises
        AuditUnwritableError when the line could not be written; nothing of it is in the log then.
        """
        try:
            with self._mutex, self._locked():
                now = self._clock()
                file, found = self._newest(now.date())
                line = to_line(event, now, self._clean)
                if room_in(found) - len(line) < self._needed_bytes:
                    try:
                        self._make_room(file, found)
                    except OSError:
                        if not checked:
                            raise
                _write(file.descriptor, found.st_size, line)
        except OSError as error:
            raise _unwritable(error) from error

    def close(self) -> None:
        with self._mutex:
            self._take(None)
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _has_room(self) -> bool:
        """Return whether the file that this process has open is the newest one and has the room that is needed."""
        if self._file is None:
            return False
        found = _state(self._file)
        return found is not None and room_in(found) >= self._needed_bytes

    def _make_room(self, file: _Open, found: os.stat_result) -> None:
        # Twice what is needed, so that it is not done again for each line.
        if set_aside(file.descriptor, found.st_size, 2 * self._needed_bytes):
            return
        free = os.fstatvfs(file.descriptor)
        if free.f_bavail * free.f_frsize < self._needed_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _newest(self, today: date) -> tuple[_Open, os.stat_result]:
        """Return the file to write to and its state, a new one when it is time for that."""
        found = None if self._file is None else _state(self._file)
        if self._file is None or found is None:
            self._take(self._latest() or self._made(FileName(today, 1)))
            found = os.fstat(self._now().descriptor)
        if today <= self._now().name.day and found.st_size < self._max_bytes:
            return self._now(), found
        old = self._now()
        try:
            known = files_in(self.folder)[-1]
            new = _opened(self.folder, known) if known > old.name else self._made(old.name.after(today))
        except OSError:  # on a full disk the old one goes on, with the room that it has
            return old, found
        os.fchmod(old.descriptor, FINISHED)
        give_back(old.descriptor, found.st_size)
        self._take(new)
        return new, os.fstat(new.descriptor)

    def _latest(self) -> _Open | None:
        """Return the newest file, or the one after it when that is finished; None when there are no files."""
        known = files_in(self.folder)
        if not known:
            return None
        is_finished = not os.stat(self.folder / str(known[-1])).st_mode & stat.S_IWUSR
        return self._made(known[-1].after(known[-1].day)) if is_finished else _opened(self.folder, known[-1])

    def _made(self, name: FileName) -> _Open:
        """Return a new file with its room set aside. Raises OSError, and leaves no file, when there is none."""
        new = _opened(self.folder, name)
        try:
            self._make_room(new, os.fstat(new.descriptor))
        except OSError:
            os.close(new.descriptor)
            new.path.unlink()
            raise
        return new

    def _take(self, file: _Open | None) -> None:
        if self._file is not None:
            os.close(self._file.descriptor)
        self._file = file

    def _now(self) -> _Open:
        assert self._file is not None
        return self._file

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = self._acquired()
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)

    def _acquired(self) -> int:
        """Return the lock, acquired, of the file that is there: somebody may have taken the folder away."""
        while True:
            if self._lock is None:
                self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
                self._lock = os.open(self.folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, WRITTEN)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if os.fstat(self._lock).st_nlink:
                return self._lock
            os.close(self._lock)
            self._lock = None


def _opened(folder: Path, name: FileName) -> _Open:
    path = folder / str(name)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, WRITTEN)
    found = os.fstat(descriptor)
    return _Open(name, path, descriptor, (found.st_dev, found.st_ino))


def _state(file: _Open) -> os.stat_result | None:
    """Return the state of a file, None when it is finished or somebody took it away."""
    try:
        found = os.stat(file.path)
    except FileNotFoundError:
        return None
    is_same = (found.st_dev, found.st_ino) == file.node
    return found if is_same and found.st_mode & stat.S_IWUSR else None


def _write(descriptor: int, size: int, line: bytes) -> None:
    """Append a line; one that was torn when its process ended stays alone on its own."""
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        line = b"\n" + line
    written = os.write(descriptor, line)
    if written < len(line):
        os.ftruncate(descriptor, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _unwritable(error: OSError) -> AuditUnwritableError:
    reason = os.strerror(error.errno) if error.errno else "unknown"
    return AuditUnwritableError(f"The audit log cannot be written to: {reason}")
