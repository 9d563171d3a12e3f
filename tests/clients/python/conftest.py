"""A Python client of the running service that checks every answer. Clients for one server that says what a test has it
say, and what they waited."""

import asyncio
import inspect
import json
import threading
from contextlib import contextmanager

import pytest
from rag_wrapper_client import AsyncClient, Client, Retry

from tests.support.contract import CheckedSession
from tests.support.live import PATIENCE_SECONDS
from tests.support.raw_server import raw_server


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


LOST = b""
NOW = 1_780_000_000.0


def said(body, status=200, **headers):
    """Return an answer as bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named = {"Content-Type": "application/json", "Content-Length": len(content), "Connection": "close"} | named
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} So\r\n{head}\r\n".encode() + content


def refused(status, code="busy", **headers):
    return said({"message": "Not now", "code": code, "details": {"n": 1}}, status, **headers)


@contextmanager
def scripted(*answers):
    """Run a server that gives one answer to each connection, in order, and the last one ever after. One that is a
    function speaks for itself."""
    left = list(answers)

    def speak(server, connection):
        answer = left.pop(0) if len(left) > 1 else left[0]
        if callable(answer):
            answer(server, connection)
        else:
            connection.sendall(answer)

    with raw_server(speak) as server:
        yield server


class Talk:
    """Calls methods of a client of either kind; `waits` are the pauses that it made."""

    def __init__(self, kind, timeout_seconds=PATIENCE_SECONDS, **retry):
        self._kind = kind
        self._timeout_seconds = timeout_seconds
        self._retry = Retry(clock=lambda: NOW, jitter=lambda: 1.0, **retry)
        self.waits = []

    def __call__(self, url, method, *args, **kwargs):
        return asyncio.run(self._call(url, method, *args, **kwargs))

    async def _call(self, url, method, *args, **kwargs):
        options = {"retry": self._retry, "timeout_seconds": self._timeout_seconds}
        if self._kind is Client:
            with Client(url, "sesame", sleep=self.waits.append, **options) as client:
                return _listed(getattr(client, method)(*args, **kwargs))
        async with AsyncClient(url, "sesame", sleep=self._sleep, **options) as client:
            value = getattr(client, method)(*args, **kwargs)
            if inspect.isawaitable(value):
                return await value
            return [item async for item in value]

    async def _sleep(self, seconds):
        self.waits.append(seconds)


def _listed(value):
    return list(value) if hasattr(value, "__iter__") and not isinstance(value, dict | bytes | str | tuple) else value
