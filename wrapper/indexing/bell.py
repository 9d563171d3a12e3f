"""What wakes an indexer at once: its own process and, through a FIFO that the processes of a service share, the others
when it leads."""

from __future__ import annotations

import os
import select
import stat
import threading
import weakref
from contextlib import suppress
from pathlib import Path

READ_BYTES = 4_096


class Bell:
    """An event that a thread may wait for together with descriptors. It belongs to the thread that waits; any thread
    may `set` it.

    `fifo` is where the process that listens is rung by others; None for a process that is alone.
    """

    def __init__(self, fifo: Path | None = None) -> None:
        self._fifo = fifo
        self._own, self._rope = os.pipe()
        self._close_pipe = weakref.finalize(self, _close, self._own, self._rope)  # also where nobody stops the indexer
        for descriptor in (self._own, self._rope):
            os.set_blocking(descriptor, False)
        self._guard = threading.Lock()
        self._is_closed = False
        self._heard: int | None = None
        self._is_set = False

    def set(self) -> None:
        with self._guard:  # a request may set it when the indexer has ended
            if not self._is_set and not self._is_closed:
                self._is_set = True
                _write(self._rope)

    def is_set(self) -> bool:
        return self._is_set

    def clear(self) -> None:
        self._is_set = False
        _drain(self._own)

    def listen(self) -> None:
        """Be woken by other processes from now on, also when something has taken the FIFO away or its place."""
        if self._fifo is None or self._is_heard():
            return
        self.stop_listening()
        with suppress(OSError):
            if self._fifo.exists() and not self._fifo.is_fifo():
                self._fifo.unlink()
            with suppress(FileExistsError):
                os.mkfifo(self._fifo, 0o600)
            self._heard = os.open(self._fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            if not self._is_heard():  # something else is there by now, which could wake for ever
                self.stop_listening()

    def _is_heard(self) -> bool:
        """Return whether what is open is the FIFO that others ring."""
        if self._fifo is None or self._heard is None:
            return False
        with suppress(OSError):
            there = self._fifo.stat()
            return stat.S_ISFIFO(there.st_mode) and os.path.samestat(there, os.fstat(self._heard))
        return False

    def stop_listening(self) -> None:
        if self._heard is not None:
            os.close(self._heard)
            self._heard = None

    def ring(self) -> None:
        """Wake the process that listens, if there is one."""
        if self._fifo is None or self._heard is not None:
            return
        with suppress(OSError):
            other = os.open(self._fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                _write(other)
            finally:
                os.close(other)

    def wait(self, seconds: float, *descriptors: int) -> None:
        """Wait until this is set or rung, there is something to read from one of the descriptors, or the time is
        over."""
        if self._is_set:
            return
        poll = select.poll()
        for descriptor in (self._own, self._heard, *descriptors):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, seconds) * 1e3)
        _drain(self._own)
        if self._heard is not None:
            _drain(self._heard)

    def close(self) -> None:
        """Let nobody wait any more; to set it does nothing then."""
        with self._guard:
            if not self._is_closed:
                self._is_closed = True
                self.stop_listening()
                self._close_pipe()


def _write(descriptor: int) -> None:
    with suppress(BlockingIOError):  # then it is full, which wakes, too
        os.write(descriptor, b"\0")


def _close(*descriptors: int) -> None:
    for each in descriptors:
        os.close(each)


def _drain(descriptor: int) -> None:
    with suppress(BlockingIOError):
        while len(os.read(descriptor, READ_BYTES)) == READ_BYTES:
            pass
