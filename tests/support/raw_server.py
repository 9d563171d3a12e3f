"""Run a server on loopback that says what a function says: bytes on a socket, without any HTTP in between."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from contextlib import contextmanager, suppress

from tests.support.live import PATIENCE_SECONDS

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PAUSE_SECONDS = 0.01
TLS_HANDSHAKE = b"\x16"


class RawServer:
    """A server that calls `speak` for each connection, in a thread of its own, which a socket error ends. `requests`
    holds the first request of each connection; `over` is set when the test ends."""

    def __init__(self, speak: Callable[[RawServer, socket.socket], None], tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.over = threading.Event()
        self._speak = speak
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return self._listening.getsockname()[1]

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def drip(self, connection: socket.socket, pieces: Iterable[bytes]) -> None:
        """Send the pieces with pauses that are shorter than any silence that a client gives up after."""
        for piece in pieces:
            connection.sendall(piece)
            if self.over.wait(PAUSE_SECONDS):
                return

    def stop(self) -> None:
        self.over.set()
        # Closing alone does not wake the thread that accepts.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                thread = threading.Thread(target=self._serve, args=(connection,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            connection.settimeout(2 * PATIENCE_SECONDS)
            with connection if self._tls is None else self._tls.wrap_socket(connection, server_side=True) as spoken:
                self.requests.append(_read_request(spoken))
                self._speak(self, spoken)


def _read_request(connection: socket.socket) -> bytes:
    """Read the request, because an answer gets lost when a connection is closed with unread data.

    A client that begins TLS with this plain server sends no blank line: it is answered as soon as it has begun.
    """
    request = b""
    while not (body := re.search(rb"\r\n\r\n", request)):
        piece = connection.recv(65536)
        request += piece
        if not piece or request.startswith(TLS_HANDSHAKE):
            return request
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", request)
    end = body.end() + (int(length[1]) if length else 0)
    while len(request) < end:
        request += connection.recv(65536) or b"\0" * end
    return request


@contextmanager
def raw_server(speak: Callable[[RawServer, socket.socket], None], tls: ssl.SSLContext | None = None):
    server = RawServer(speak, tls)
    try:
        yield server
    finally:
        server.stop()


def saying(answer: bytes) -> Callable[[RawServer, socket.socket], None]:
    """Return a function that says these bytes and closes the connection."""
    return lambda server, connection: connection.sendall(answer)


def silent(server: RawServer, connection: socket.socket) -> None:
    server.over.wait(2 * PATIENCE_SECONDS)
