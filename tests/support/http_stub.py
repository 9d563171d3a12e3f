"""Run a small HTTP server on loopback that answers as a service of a test says: the base of the stubs that speak a
protocol."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, TypeVar

from tests.support.raw_server import TLS_HANDSHAKE


class Answering(Protocol):
    """A service: `answer` returns (status, headers, content) with content in bytes or as JSON, or None to cut the
    connection. It is asked with the request's JSON, or None."""

    url: str

    def answer(
        self, method: str, target: str, headers: dict[str, str], body: Any
    ) -> tuple[int, dict[str, str], Any] | None: ...


Service = TypeVar("Service", bound=Answering)


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Say nothing: some tests are about clients that hang up in the middle."""


@contextmanager
def running(service: Service, tls: ssl.SSLContext | None = None) -> Iterator[Service]:
    """Run the service, whose `url` is set."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle(self):
            if tls is None and self.connection.recv(1, socket.MSG_PEEK) == TLS_HANDSHAKE:
                return  # or the client would wait for its answer as long as this server for a line
            super().handle()

        def handle_any(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = service.answer(self.command, self.path, dict(self.headers), json.loads(body) if body else None)
            if answer is None:
                self.close_connection = True
                return
            status, headers, content = answer
            content = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for key, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = handle_any

        def log_message(self, format, *args):
            """Log nothing: a service keeps its requests itself."""

    server = QuietServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    service.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
