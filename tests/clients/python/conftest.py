"""A Python client of the running service that checks every answer."""

import threading

import pytest
from rag_wrapper_client import AsyncClient, Client

from tests.clients.python.talking import Talk
from tests.support.contract import CheckedSession


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


@pytest.fixture
def recording():
    with RecordingSession() as session:
        yield session


@pytest.fixture
def client(live, recording):
    with Client(live.url, session=recording) as client:
        yield client


@pytest.fixture
def library(client, collection):
    client.create_collection(collection)
    yield collection
    client.delete_collection(collection)


@pytest.fixture(params=[Client, AsyncClient])
def talk(request):
    return Talk(request.param)
