"""Commands against the live service, and collections whose documents the service itself embedded."""

import uuid

import pytest

from tests.properties.profiles import load_profile
from tests.support.commands import run_command

load_profile()


@pytest.fixture
def run_live(live):
    """`run_live(command, …)`: runs a command with the live service's address."""
    return lambda *arguments: run_command(*arguments, "--url", live.url)


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
def connection_id(client):
    """An id for the test, whose connection is deleted afterwards."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    client.delete(f"/api/connections/{name}")
