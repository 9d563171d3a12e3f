"""When other services take requests and never answer, the same worker still serves storage, whoever waits for them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import requests

from tests.support.live import PATIENCE_SECONDS, eventually, spawn_service
from tests.support.raw_server import RawServer

AT_ONCE, WAITING = 8, 4
VECTOR = [1.0, 0.0]


class Held:
    """A server that accepts and says nothing until it is released, and then breaks off everything that was begun."""

    def __init__(self):
        self.go = threading.Event()
        self.server = RawServer(lambda server, connection: self.go.wait(PATIENCE_SECONDS))

    def stop(self):
        self.go.set()
        self.server.stop()


@pytest.fixture(scope="module")
def held():
    held = Held()
    yield held
    held.stop()


@pytest.fixture(scope="module")
def service(tmp_path_factory, held):
    settings = {
        "workers": 1,
        "threads": 8,
        "service_threads": AT_ONCE,
        "max_queue": WAITING,
        "embedding_provider": "openai",
        "chat_provider": "openai",
        "embedding_url": held.server.url,
        "chat_url": held.server.url,
        "embedding_model": "m",
        "chat_model": "m",
        "retrieve_seconds": PATIENCE_SECONDS,
        "collect_seconds": PATIENCE_SECONDS,
    }
    # The service is not healthy, because its embedding service is held, but it serves.
    service = spawn_service(tmp_path_factory.mktemp("foreign"), settings)
    try:
        eventually(lambda: _is_ready(service), complaint=service.tail)
        yield service
    finally:
        service.stop()


def _is_ready(service):
    with suppress(requests.ConnectionError):
        return requests.get(f"{service.url}/ready", timeout=PATIENCE_SECONDS).status_code == 200
    return False


@pytest.fixture(scope="module")
def url(service):
    with service.session() as session:
        assert session.post(f"{service.url}/collections", json={"name": "own"}).status_code == 201
    return f"{service.url}/collections/own"


@pytest.fixture(scope="module", params=["chromadb", "qdrant", "chromadb-wrapper"])
def connection(request, service, held):
    """The id of a connection of that kind to a service that is held."""
    body = {"id": f"held-{request.param}", "type": "rag", "provider": request.param, "config": {"url": held.server.url}}
    with service.session() as session:
        assert session.post(f"{service.url}/api/connections", json=body).status_code == 201
    return body["id"]


def _storage_goes_on(service, url):
    with service.session() as session:
        for number in range(3 * AT_ONCE):
            document = {"id": f"d{number}", "text": "x", "embedding": VECTOR}
            assert session.post(f"{url}/documents", json={"documents": [document]}).status_code in (201, 202)
            assert session.get(f"{url}/documents/d{number}").status_code == 200
            assert session.post(f"{url}/query", json={"query_embedding": VECTOR}).json()["results"]
        for path in ("/live", "/ready", "/health", "/metrics"):
            assert session.get(service.url + path).status_code == 200


def _hold(service, url, held, ask):
    """Let as many requests wait for a service as may, see that one more is refused, and ask storage meanwhile."""
    held.go.clear()
    refused = threading.Event()

    def call(number):
        with requests.Session() as session:
            answer = ask(session, number)
        if answer.status_code == 503 and "too many" in answer.json()["message"].lower():
            assert answer.headers["Retry-After"] == "2"
            refused.set()

    with ThreadPoolExecutor((AT_ONCE + WAITING) // 2 + 1) as pool:
        asked = [pool.submit(call, number) for number in range((AT_ONCE + WAITING) // 2 + 1)]
        try:
            assert refused.wait(PATIENCE_SECONDS)
            _storage_goes_on(service, url)
            assert sum(not each.done() for each in asked) == (AT_ONCE + WAITING) // 2  # half for one service
        finally:
            held.go.set()
        for each in asked:
            each.result(PATIENCE_SECONDS)


def _ingested(number):
    return "/api/rag/ingest", {"source": "wiki", "path": f"p{number}", "title": "t", "text": f"some text {number}"}


def _indexed(number):
    arguments = {"content": f"some text {number}", "metadata": {"category": "strategy"}}
    return "/tools/rag_context_index", {"name": "rag_context_index", "arguments": arguments}


def _said(number):
    return "/api/chat", {"message": f"hello {number}"}


@pytest.mark.parametrize("request_of", [_ingested, _indexed, _said], ids=["embeddings", "embeddings of tools", "chat"])
def test_storage_answers_while_models_are_held(service, url, held, request_of):
    def post(session, number):
        path, body = request_of(number)
        return session.post(service.url + path, json=body, timeout=PATIENCE_SECONDS)

    _hold(service, url, held, post)


def test_storage_answers_while_another_store_is_held(service, url, held, connection):
    def collections(session, number):
        listing = f"{service.url}/api/connections/{connection}/collections"
        return session.get(listing, timeout=PATIENCE_SECONDS)

    _hold(service, url, held, collections)
