"""A client's connection over TLS, with the same patience as one without."""

from __future__ import annotations

import errno
import socket
import ssl
from contextlib import suppress

from wrapper.web.slow_clients import Patience, PatientSocket

READ_BYTES = 64 * 1024
MOST_READ_BYTES = 256 * 1024
"""The bytes received at once, before and after the length of a large body is known."""
RECORD_BYTES = 16 * 1024
WRITE_BYTES = 64 * 1024
PLAIN_REQUEST = "HTTP_REQUEST"
"""OpenSSL's reason for refusing a client that speaks HTTP without TLS."""


class TlsSocket(PatientSocket):
    """A connected socket that speaks TLS as the server. It makes no thread and no event loop wait that one without
    would not.

    The handshake is a part of reading: it goes on whenever something arrives. The encryption works in memory, so that
    only the methods of the socket below ever wait. What a poll announces is then read and decrypted as a whole: nothing
    that the poll cannot see is left behind, except what `take_held` returns.
    """

    def __init__(self, fileno: int, patience: Patience, context: ssl.SSLContext) -> None:
        super().__init__(fileno, patience)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_shaken = False
        self._is_at_end = False
        self._is_ended = False
        self._held = bytearray()
        self._unsent = memoryview(b"")
        self.speaks_plainly = False
        """Whether the client has begun a request without TLS."""

    def take_held(self) -> bytes:
        held = bytes(self._held)
        self._held.clear()
        return held

    def send(self, content: bytes, flags: int = 0) -> int:  # type: ignore[override]
        """Send all of a short answer, or as much as is possible now when the socket does not block."""
        if self.gettimeout() != 0:
            self._send_whole(content, flags)
            return len(content)
        return self._give(memoryview(content), flags)

    def send_plainly(self, content: bytes) -> None:
        """Send without TLS, as far as possible now, to a client that speaks without it."""
        super().send(content, socket.MSG_DONTWAIT)
        self._is_ended = True

    def shutdown(self, how: int) -> None:
        self._take_leave()
        self._unsent = memoryview(b"")
        self._outgoing.read()
        super().shutdown(how)

    def close(self) -> None:
        with suppress(OSError):
            self._take_leave()
        super().close()

    def _take(self, size: int, flags: int) -> bytes:
        self._send_off()
        if not self._held and not self._is_at_end:
            content = super()._take(max(READ_BYTES, min(size, MOST_READ_BYTES)), flags)
            if content:
                self._incoming.write(content)
            else:
                self._incoming.write_eof()
            self._decrypt()
        if not self._held and not self._is_at_end:
            raise BlockingIOError(errno.EAGAIN, "There is a part of a message only")
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    def _decrypt(self) -> None:
        """Read all that has arrived in full. Raises ConnectionResetError for what is no TLS."""
        try:
            if not self._is_shaken:
                self._tls.do_handshake()
                self._is_shaken = True
            while piece := self._tls.read(RECORD_BYTES):
                self._held += piece
            self._is_at_end = True
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._is_at_end = True
        except ssl.SSLError as error:
            self._is_at_end = self._is_ended = True
            self.speaks_plainly = error.reason == PLAIN_REQUEST
            if not self.speaks_plainly:
                self._send_off()  # why it is refused
            raise ConnectionResetError(errno.ECONNRESET, f"No TLS: {error.reason}") from None
        self._send_off()

    def _give(self, content: memoryview, flags: int) -> int:
        if self._owes():
            self._send_unsent(flags)
            return 0
        try:
            length = self._tls.write(content[:WRITE_BYTES])
        except ssl.SSLError as error:
            raise BrokenPipeError(errno.EPIPE, f"No TLS any more: {error.reason}") from None
        self._send_off()
        return length

    def _owes(self) -> bool:
        return bool(self._unsent) or bool(self._outgoing.pending)

    def _send_unsent(self, flags: int = 0) -> None:
        """Send a part of what is encrypted. Raises BlockingIOError when nothing can be sent now."""
        if not self._unsent:
            self._unsent = memoryview(self._outgoing.read())
        self._unsent = self._unsent[super()._give(self._unsent, flags) :]

    def _send_off(self) -> None:
        """Send what is encrypted, as far as possible now. An error of the connection is left to the next reading."""
        with suppress(OSError):
            while self._owes():
                self._send_unsent()

    def _take_leave(self) -> None:
        """Tell the client once that nothing more comes, so that it knows an end from an interruption."""
        if self._is_shaken and not self._is_ended:
            self._is_ended = True
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._send_off()
