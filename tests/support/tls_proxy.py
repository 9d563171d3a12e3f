"""Run a proxy in front of a Chroma server: TLS with a certificate authority of its own, and a token that every request
needs."""

import ssl
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import trustme

from tests.support.live import PATIENCE_SECONDS


class TokenProxy:
    """A proxy that answers requests of the methods in `refused_methods` with `refusal` (status, headers, body); while
    that is None, every request with the token in the header passes. `heartbeat` passes without a token, as at many
    proxies."""

    def __init__(self, url, ca_file, *, token, header):
        self.url = url
        self.ca_file = ca_file
        self.token, self.header = token, header
        self.refusal = None
        self.refused_methods = ("GET", "POST", "PUT", "DELETE")
        self.passed = []

    @contextmanager
    def refusing(self, status, body=b"", *, methods=("GET", "POST", "PUT", "DELETE"), **headers):
        self.refused_methods = methods
        self.refusal = status, headers, body
        try:
            yield
        finally:
            self.refusal = None

    def answer_to(self, method, path, headers):
        """Return a refusal, or None when the request passes."""
        if path == "/api/v2/heartbeat":
            return None
        if headers.get(self.header) != self.token:
            return 401, {}, b"who are you?"
        if method in self.refused_methods:
            return self.refusal
        return None


@contextmanager
def token_proxy(chroma_port, directory, *, token="s3cret-token", header="X-Chroma-Token", is_secure=True):
    """Run a `TokenProxy` in front of a Chroma server on this machine; without TLS unless it `is_secure`."""
    authority = trustme.CA()
    ca_file = directory / "authority.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            refusal = proxy.answer_to(self.command, self.path, self.headers)
            status, headers, content = refusal or self._forward(body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _forward(self, body):
            proxy.passed.append(self.path)
            connection = HTTPConnection("127.0.0.1", chroma_port, timeout=PATIENCE_SECONDS)
            try:
                connection.request(self.command, self.path, body, {"content-type": "application/json"})
                response = connection.getresponse()
                kind = response.getheader("content-type")
                return response.status, {"content-type": kind} if kind else {}, response.read()
            except OSError:
                return 502, {}, b"nobody behind"
            finally:
                connection.close()

        do_GET = do_POST = do_PUT = do_DELETE = _serve

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def finish_request(self, request, client_address):
            if not is_secure:
                super().finish_request(request, client_address)
                return
            with context.wrap_socket(request, server_side=True) as secured:
                super().finish_request(secured, client_address)

        def handle_error(self, *_):
            pass

    server = Server(("127.0.0.1", 0), Handler)
    url = f"https://localhost:{server.server_port}" if is_secure else f"http://127.0.0.1:{server.server_port}"
    proxy = TokenProxy(url, ca_file, token=token, header=header)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
