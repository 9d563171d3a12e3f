"""Collections to be re-embedded, and connections to a stub of a model."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from werkzeug.serving import make_server

from tests.scenarios.storage.reembedding.switching import add


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
def filled(client):
    """`filled(dimension, **metadata)`: the name of a collection of five documents of that dimension."""
    made = []

    def fill(dimension, **metadata):
        made.append(f"docs-{uuid.uuid4().hex[:8]}")
        told = {"name": made[-1], "metadata": {"embedding_model": "older", **metadata}}
        assert client.post("/collections", json=told).status_code == 201
        documents = [{"id": f"d{n}", "text": f"Text {n}", "embedding": [1.0] * dimension} for n in range(5)]
        answer = client.post(f"/collections/{made[-1]}/documents", json={"documents": documents})
        assert answer.status_code in (201, 202), answer.json
        return made[-1]

    yield fill
    for name in made:
        client.delete(f"/collections/{name}")


@pytest.fixture
def name(client):
    name = f"docs-{uuid.uuid4().hex[:8]}"
    metadata = {"embedding_model": "older", "title": "Handbook"}
    assert client.post("/collections", json={"name": name, "metadata": metadata}).status_code == 201
    add(client, name, *range(5))
    yield name
    client.delete(f"/collections/{name}")


@pytest.fixture
def url(app):
    """Where the service is asked over HTTP."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever)
        yield f"http://127.0.0.1:{server.port}"
        server.shutdown()
    server.server_close()
