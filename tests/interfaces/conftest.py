"""Commands against the live service, a service for connections to lead to, and collections that are embedded."""

import json
import os
import re
import threading
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
import structlog

from retrieval.search.oracles.semantic import SemanticOracle
from schemas.errors import UnavailableError
from tests.registry.hostile import response
from tests.support.commands import run_command
from tests.support.raw_server import RawServer, raw_server

TYPED = "sk-typed-by-a-person-93af"
"""A secret that people type, which a service may repeat."""


@contextmanager
def lines_written():
    """Keep all lines of the log, as they are written, for the length of the block."""
    lines = []

    def keep(_logger, _method, line):
        lines.append(line.decode() if isinstance(line, bytes) else str(line))
        return line

    processors = structlog.get_config()["processors"]
    processors.append(keep)
    try:
        yield lines
    finally:
        processors.remove(keep)


def environ(**settings: object) -> dict[str, str]:
    """Return the environment of the tests without settings of the service, and with these: RAG_ variables in lower
    case."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    return kept | {f"RAG_{name.upper()}": str(value) for name, value in settings.items()}


@contextmanager
def serving(server):
    """Have a thread serve for the length of the block."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answering(
    routes: Mapping[str, Any], *, otherwise: Any = None, status: str = "404 Not Found"
) -> AbstractContextManager[RawServer]:
    """Run a service that answers one JSON value by path, and by path alone; paths that it does not know are answered
    `otherwise`, with a status of their own."""

    def speak(server, connection):
        asked = re.match(rb"[A-Z]+ (/[^ ?]*)", server.requests[-1])
        if asked is not None:
            is_known = asked[1].decode() in routes
            said = json.dumps(routes[asked[1].decode()] if is_known else otherwise or {"error": "Not found"}).encode()
            connection.sendall(response(said) if is_known else response(said, status))

    return raw_server(speak)


@pytest.fixture
def run_live(live):
    """`run_live(command, …)`: runs a command with the live service's address."""
    return lambda *arguments: run_command(*arguments, "--url", live.url)


@pytest.fixture
def service_behind():
    """A small service that lists one collection whatever it is asked, and keeps the requests."""
    listed = orjson.dumps({"collections": [{"name": f"of {TYPED}", "count": 1, "metadata": {}}]})

    def speak(server, connection):
        if server.requests[-1]:
            connection.sendall(response(listed))

    with raw_server(speak) as server:
        yield server


@pytest.fixture(scope="module")
def text_collection(app):
    """`text_collection(documents)` makes a collection of (text, metadata) by id for all tests of a module, and returns
    its name."""
    client, made = app.test_client(), []

    def make(documents, name=None):
        name = name or f"texts-{uuid.uuid4().hex[:16]}"
        embedding = app.extensions["rag.layers"].connections.open("default", "embedding")
        about = {"embedding_model": embedding.model}
        assert client.post("/collections", json={"name": name, "metadata": about}).status_code == 201
        made.append(name)
        vectors = embedding.embed([text for text, _ in documents.values()]).tolist()
        stored = [
            {"id": each, "text": text, "metadata": metadata, "embedding": vector}
            for (each, (text, metadata)), vector in zip(documents.items(), vectors, strict=True)
        ]
        assert client.post(f"/collections/{name}/documents", json={"documents": stored}).status_code == 201
        return name

    yield make
    for name in made:
        client.delete(f"/collections/{name}")


@pytest.fixture
def failing_oracle(monkeypatch):
    """What is said of the semantic oracle, which fails in the test."""
    monkeypatch.setattr(SemanticOracle, "query", Mock(side_effect=UnavailableError("It is away")))
    return "The semantic oracle did not answer: It is away"


@pytest.fixture
def connection_id(client):
    """An id for the test, whose connection is deleted afterwards."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    client.delete(f"/api/connections/{name}")
