"""Lets threads wait for clients, but not for ever, and not all threads at the same time."""

from __future__ import annotations

import errno
import math
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

UNNOTICED_SECONDS = 1.0
LEAST_BYTES_PER_SECOND = 1_000
DISCARDED_BYTES = 64 * 1024
MOST_JOINED_BYTES = 64 * 1024
"""The longest beginning of an answer of which a copy is made to send it with its head."""
NO_MORE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
"""The event of a client that sends nothing more; without Linux's own, that of a broken connection only."""


class MalformedBodyError(OSError):
    """A body is not framed as HTTP wants it, so nobody can tell where the next request begins."""


class Patience:
    """The limits that the connections of one process share.

    A client may keep a request waiting for `seconds` while it sends, and gets a second back for each
    `LEAST_BYTES_PER_SECOND` sent, so that it is never silent for longer, however much it has sent; for `seconds` at a
    time while it takes the answer, which may have a limit in all (`PatientSocket.finish_within`). At most `waits`
    requests at a time may wait for longer than `UNNOTICED_SECONDS`: the other threads are for quick clients.
    """

    def __init__(self, seconds: float, waits: int) -> None:
        self.seconds = seconds
        self.slots = threading.BoundedSemaphore(waits)


class PatientSocket(socket.socket):
    """A connected socket that gives a slow client up: `recv` raises TimeoutError, `sendall` BrokenPipeError."""

    def __init__(self, fileno: int, patience: Patience, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(fileno=fileno)
        self._patience = patience
        self._clock = clock
        self._finish_by = math.inf
        self._give_up: Callable[[], None] = _nothing
        self._waited_seconds = 0.0
        self._left_seconds = self._most_seconds = patience.seconds
        self._end: Callable[[], None] = _nothing
        self._holds_next = False
        self._held_back = b""
        self.asked = b""

    def begin(self, asked: bytes = b"") -> None:
        """Begin a new request, with no wait counted yet; `asked` is the beginning of its head."""
        self.asked = asked
        self._waited_seconds, self._left_seconds = 0.0, self._patience.seconds
        self._most_seconds = self._patience.seconds
        self._finish_by, self._give_up = math.inf, _nothing
        self._holds_next, self._held_back = True, b""

    def finish(self) -> None:
        """Send what `sendall` holds back, because the answer has nothing more."""
        if self._held_back:
            self.sendall(b"")

    def give_up_head(self) -> None:
        """Hold nothing back any more, and send nothing of what was: another answer is given."""
        self._holds_next, self._held_back = False, b""

    def finish_within(self, seconds: float, give_up: Callable[[], None]) -> None:
        """Cut the connection, after `give_up`, when the client has not taken the whole answer within `seconds`."""
        self._finish_by, self._give_up = self._clock() + seconds, give_up

    def ends_by(self, end: Callable[[], None]) -> None:
        """Set the function that makes the answer of this request the connection's last."""
        self._end = end

    def end(self) -> None:
        """Leave the rest of the request unread: its answer is the connection's last and says so."""
        self._end()

    def hurry(self) -> None:
        """Wait for the rest of the request only as long as nobody notices: nobody needs it."""
        self._left_seconds = self._most_seconds = min(self._left_seconds, UNNOTICED_SECONDS)

    def is_gone(self) -> bool:
        """Return whether the client sends nothing more. One that has closed the connection cannot be told from one that
        still reads until something is sent to it, so it has left, as for nginx and for Go's server."""
        descriptor = self.fileno()
        if descriptor < 0:  # asked by a thread that went on after the answer
            return True
        poll = select.poll()
        poll.register(descriptor, NO_MORE)
        return bool(poll.poll(0))

    def recv(self, size: int, flags: int = 0) -> bytes:
        while True:
            try:
                content = self._take(size, flags)
            except BlockingIOError:
                if self.gettimeout() == 0:
                    raise
                waited = self._waited_seconds
                is_ready = self._wait(select.POLLIN, self._left_seconds)
                self._left_seconds -= self._waited_seconds - waited
                if not is_ready:
                    self.end()
                    raise TimeoutError("The client sends its request too slowly") from None
            else:
                earned = len(content) / LEAST_BYTES_PER_SECOND
                self._left_seconds = min(self._most_seconds, self._left_seconds + earned)
                return content

    def sendall(self, content: Any, flags: int = 0) -> None:
        """Send what is given. What comes first after `begin` is held back: it is the head of an answer, and a client is
        not to be woken twice."""
        if self._holds_next:
            self._holds_next, self._held_back = False, bytes(content)
            return
        if self._held_back:
            head, self._held_back = self._held_back, b""
            if len(content) <= MOST_JOINED_BYTES:
                content = head + content
            else:
                self._send_whole(head, flags)
        self._send_whole(content, flags)

    def _send_whole(self, content: Any, flags: int) -> None:
        rest = memoryview(content)
        while rest or self._owes():
            left_seconds = self._finish_by - self._clock()
            if left_seconds <= 0:
                self._give_up()
                raise BrokenPipeError(errno.EPIPE, "The client takes its answer too slowly")
            try:
                rest = rest[self._give(rest, flags) :]
            except BlockingIOError:
                is_ready = self._wait(select.POLLOUT, min(self._patience.seconds, left_seconds))
                if not is_ready and self._clock() < self._finish_by:
                    raise BrokenPipeError(errno.EPIPE, "The client takes its answer too slowly") from None

    def take_held(self) -> bytes:
        """Return what has been received and not read yet, and is not the system's to announce any more."""
        return b""

    def discard(self) -> bool:
        """Throw away what has arrived. Return False when the client has gone."""
        try:
            return bool(super().recv(DISCARDED_BYTES, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def owes_now(self) -> bool:
        """Return whether something waits for the client to take it, so that it should be watched for that too."""
        return self._owes()

    def is_readable(self, seconds: float) -> bool:
        """Return whether something has arrived, or the client has gone, waiting for it for so long."""
        return self._is_ready(select.POLLIN, seconds)

    def _take(self, size: int, flags: int) -> bytes:
        """Return what has arrived, b"" at the end. Raises BlockingIOError when that is nothing."""
        return super().recv(size, flags | socket.MSG_DONTWAIT)

    def _give(self, content: memoryview, flags: int) -> int:
        """Send a part of the content and return its length. Raises BlockingIOError when nothing can be sent now."""
        return super().send(content, flags | socket.MSG_DONTWAIT)

    def _owes(self) -> bool:
        """Return whether something that was given is not sent yet; `_give` sends it first."""
        return False

    def _wait(self, event: int, seconds: float) -> bool:
        began = time.monotonic()
        unnoticed = min(seconds, max(0.0, UNNOTICED_SECONDS - self._waited_seconds))
        try:
            if self._is_ready(event, unnoticed):
                return True
            if seconds <= unnoticed or not self._patience.slots.acquire(blocking=False):
                return False
            try:
                return self._is_ready(event, seconds - unnoticed)
            finally:
                self._patience.slots.release()
        finally:
            self._waited_seconds += time.monotonic() - began

    def _is_ready(self, event: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self, event)
        return bool(poll.poll(max(0.0, seconds) * 1e3))


def _nothing() -> None:
    pass
