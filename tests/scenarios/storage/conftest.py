"""A collection, and a connection to the model that gives it other vectors."""

from __future__ import annotations

import uuid

import pytest

from tests.scenarios.storage.reembedding import add


@pytest.fixture
def client(app):
    return app.test_client()


@pytest.fixture
def connect(client, models_up):
    """`connect(model)`: the id of an embedding connection to the stub with that model."""

    def connect(model):
        connection_id = f"{model}-{uuid.uuid4().hex[:8]}"
        config = {"url": f"{models_up.url}/v1", "model": model}
        body = {"id": connection_id, "type": "embedding", "provider": "openai", "config": config}
        assert client.post("/api/connections", json=body).status_code == 201
        return connection_id

    return connect


@pytest.fixture
def connection(connect):
    """An embedding connection to the stub, whose model is `newer`."""
    return connect("newer")


@pytest.fixture
def name(client):
    name = f"docs-{uuid.uuid4().hex[:8]}"
    metadata = {"embedding_model": "older", "title": "Handbook"}
    assert client.post("/collections", json={"name": name, "metadata": metadata}).status_code == 201
    add(client, name, *range(5))
    yield name
    client.delete(f"/collections/{name}")
