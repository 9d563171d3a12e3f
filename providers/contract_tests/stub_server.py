"""A server of HTTP on loopback that answers whatever a test wants it to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""

LONGEST_SILENCE_SECONDS = 30


class StubServer:
    """Answers everything with `answer`, and with None stays silent. `requests` are the paths and headers that came."""

    def __init__(self) -> None:
        self.answer: Answer | None = (200, {}, b"{}")
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.over = threading.Event()
        self.url = ""


@contextmanager
def serving() -> Iterator[StubServer]:
    stub = StubServer()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            stub.requests.append((self.path, dict(self.headers)))
            if stub.answer is None:
                stub.over.wait(LONGEST_SILENCE_SECONDS)
                return
            status, headers, body = stub.answer
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = handle_any

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: requests are in `stub.requests`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stub
    finally:
        stub.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
