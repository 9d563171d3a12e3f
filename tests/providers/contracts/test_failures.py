"""What goes wrong between a provider and its server, told alike: the coarse type, and no secret."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from providers.addresses import ConnectPolicy
from providers.base import ProviderContext
from providers.network import Network
from registry.discovery import discover
from registry.registry import ProviderRegistry
from schemas.errors import ConfigurationError, InvalidInputError, RagError, UnavailableError

SECRET = "planted-secret-key"
REMOTE = [
    entry.id
    for entry in discover(ProviderRegistry(), strangers=()).entries("rag")
    if "url" in entry.provider.connection_schema()["properties"]
]


class Stub:
    """Answers everything with `answer`, `(status, headers, body)`; None hangs until the end."""

    def __init__(self):
        self.answer = (200, {}, b"{}")
        self.requests = []
        self.over = threading.Event()


@contextmanager
def serving(stub):
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            stub.requests.append((self.path, dict(self.headers)))
            if stub.answer is None:
                stub.over.wait(30)
                return
            status, headers, body = stub.answer
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = handle_any

        def log_message(self, format, *args):
            """Requests are in `stub.requests`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        stub.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def stub():
    return Stub()


@pytest.fixture
def url(stub):
    with serving(stub) as url:
        yield url


@pytest.fixture(params=REMOTE)
def provider(request, registry, url):
    config = {"url": url, "api_key": SECRET, "timeout_seconds": 0.5}
    kind = registry.provider("rag", request.param)
    with kind(config, ProviderContext(), sleep=lambda seconds: None) as provider:
        yield provider


def errors_of(provider):
    for ask in (
        provider.check,
        provider.collections,
        lambda: provider.collection("docs"),
        lambda: provider.search("docs", np.ones(4, "f4")),
        lambda: provider.documents("docs"),
    ):
        with pytest.raises(RagError) as raised:
            ask()
        yield raised.value


def body(**fields):
    return json.dumps({"error": f"no {SECRET}", "message": "a reason", **fields}).encode()


@pytest.mark.parametrize(
    ("answer", "kind", "error_type"),
    [
        ((401, {}, body()), ConfigurationError, "authentication"),
        ((403, {}, b"<html>forbidden"), ConfigurationError, "authorization"),
        ((302, {"Location": "http://169.254.169.254/latest"}, b""), ConfigurationError, "invalid_config"),
        ((429, {}, body()), UnavailableError, "rate_limit"),
        (None, UnavailableError, "timeout"),
    ],
    ids=["401", "403", "302", "429", "silence"],
)
def test_a_failure_has_its_type_and_tells_no_secret(provider, stub, answer, kind, error_type):
    stub.answer = answer
    for error in errors_of(provider):
        assert isinstance(error, kind), error
        assert error.details["error_type"] == error_type
        assert SECRET not in str([error.message, error.details])
    report = provider.health()
    assert (report.status, report.details["error_type"]) == ("unhealthy", error_type)
    assert SECRET not in str(report)
    assert all("latest" not in path for path, _ in stub.requests)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'"text"',
        b"null",
        b'{"result": 5}',
        b'{"id": 7, "name": [], "collections": [1]}',
        b"[[[1",
    ],
)
def test_an_answer_of_something_else_is_no_crash(provider, stub, content):
    stub.answer = (200, {}, content)
    for ask in (provider.collections, lambda: provider.search("docs", np.ones(4, "f4")), provider.check):
        try:
            ask()
        except RagError:
            continue
    assert provider.health().status in ("healthy", "unhealthy")
    with pytest.raises(RagError):
        provider.documents("docs")


def test_the_key_goes_in_its_own_header_and_nowhere_else(provider, stub):
    provider.health()
    assert stub.requests
    for path, headers in stub.requests:
        assert [value for value in headers.values() if SECRET in value] in ([SECRET], [f"Bearer {SECRET}"])
        assert SECRET not in path


@pytest.mark.parametrize(
    ("name", "header"), [("chromadb-wrapper", "Authorization"), ("chromadb", "x-chroma-token"), ("qdrant", "api-key")]
)
def test_the_key_goes_where_the_server_looks_for_it(registry, url, stub, name, header):
    with registry.provider("rag", name)({"url": url, "api_key": SECRET}, sleep=lambda seconds: None) as provider:
        provider.health()
    assert all(SECRET in headers[header] for _, headers in stub.requests)


@pytest.mark.parametrize("name", REMOTE)
@pytest.mark.parametrize("target", ["http://169.254.169.254", "http://[::ffff:169.254.169.254]", "http://2852039166"])
def test_the_policy_is_asked_before_any_socket_is_opened(registry, name, target):
    kind = registry.provider("rag", name)
    with kind({"url": target}, ProviderContext(), sleep=lambda seconds: None) as provider:
        assert provider.health().details["error_type"] == "blocked"
        for error in errors_of(provider):
            assert isinstance(error, InvalidInputError)
            assert error.details["error_type"] == "blocked"


@pytest.mark.parametrize("name", REMOTE)
def test_the_policy_of_the_context_is_the_one_asked(registry, name, url, stub):
    context = ProviderContext(network=Network(ConnectPolicy.parse("public")))
    with registry.provider("rag", name)({"url": url}, context, sleep=lambda seconds: None) as provider:
        assert provider.health().details["error_type"] == "blocked"
    assert stub.requests == []
