"""Run a reverse proxy in front of a service on this machine, which says of its clients what nginx and Caddy say."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.live import PATIENCE_SECONDS

OF_ONE_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})
"""Headers that are not passed on, in lower case: those of one connection, and those that are set anew."""


@contextmanager
def forwarding_proxy(port: int, *, host: str, client: str) -> Iterator[str]:
    """Return the address of a proxy in front of the service that listens on that port. Clients call it by `host`, with
    https as far as it tells, and come from `client`."""

    def told(given: Mapping[str, str]) -> dict[str, str]:
        kept = {name: text for name, text in given.items() if name.lower() not in OF_ONE_CONNECTION}
        said = next((kept.pop(name) for name in list(kept) if name.lower() == "x-forwarded-for"), None)
        address = client if said is None else f"{said}, {client}"
        return {**kept, "Host": host, "X-Forwarded-For": address, "X-Forwarded-Proto": "https"}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
            try:
                connection.request(self.command, self.path, body or None, told(self.headers))
                answer = connection.getresponse()
                content = answer.read()
            finally:
                connection.close()
            self.send_response(answer.status)
            for name, text in answer.getheaders():
                if name.lower() not in OF_ONE_CONNECTION:
                    self.send_header(name, text)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()
