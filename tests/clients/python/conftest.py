"""One service for all tests of the Python client, with models of a stub, kept originals and a folder for backups."""

from __future__ import annotations

import threading

import pytest
from rag_wrapper_client import Client

from tests.support.contract import CheckedSession
from tests.support.live import live_service
from tests.support.model_server import as_json, model_server


class RecordingSession(CheckedSession):
    """Checks every answer against openapi.yaml, and knows which operations were asked for."""

    def __init__(self):
        super().__init__()
        self.operations = set()
        self._lock = threading.Lock()

    def send(self, request, **kwargs):
        response = super().send(request, **kwargs)
        template = self.contract.match(request.path_url.partition("?")[0])
        with self._lock:
            self.operations.add((template, request.method))
        return response


def _reranked(body):
    count = len(body["documents"])
    return as_json({"results": [{"index": place, "relevance_score": 1 / (place + 1)} for place in range(count)]})


@pytest.fixture(scope="session")
def models_of_clients():
    with model_server() as server:
        server.routes["/rerank"] = _reranked
        yield server


@pytest.fixture(scope="session")
def service(tmp_path_factory, models_of_clients, processes):
    folder = tmp_path_factory.mktemp("clients")
    url = f"{models_of_clients.url}/v1"
    with live_service(
        folder,
        access="open",
        embedding_provider="openai",
        embedding_url=url,
        embedding_model="stub",
        chat_provider="openai",
        chat_url=url,
        chat_model="chatty",
        rerank_provider="cohere",
        rerank_url=models_of_clients.url,
        keep_originals="on",
        backup_dir=folder / "backups",
    ) as service:
        yield service


@pytest.fixture
def recording():
    with RecordingSession() as session:
        yield session


@pytest.fixture
def client(service, recording):
    """A client that checks every answer against openapi.yaml."""
    with Client(service.url, session=recording) as client:
        yield client
