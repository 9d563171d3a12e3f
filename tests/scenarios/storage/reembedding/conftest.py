"""Collections to be re-embedded, and connections to a stub of a model."""

import uuid

import pytest

from tests.support.apps import served
from tests.support.live import eventually
from tests.support.model_server import vector

OLD_DIMENSION = 3


def add(client, name, *numbers):
    documents = [
        {"id": f"d{number}", "text": f"Text {number}", "embedding": [1.0, number, 0.0], "metadata": {"n": number}}
        for number in numbers
    ]
    answer = client.post(f"/collections/{name}/documents", json={"documents": documents})
    assert answer.status_code in (201, 202), answer.json


def upload(client, name, file):
    """Upload some words as a Markdown file, and return how its job ended."""
    headers = {"X-Filename": file, "Content-Type": "text/markdown"}
    told = client.post(f"/api/documents?collection={name}", data=b"# A\n\nWords.", headers=headers)
    job = f"/api/jobs/{told.json['job']['id']}"
    eventually(lambda: client.get(job).json["status"] == "done")
    return client.get(job).json


def reembed(client, name, **asked):
    return client.post(f"/collections/{name}/reembed", json=asked)


def state(client, name):
    return client.get(f"/collections/{name}/reembed").json


def nearest(client, name, text):
    asked = {"query_embedding": vector(text).tolist(), "top_k": 1}
    [found] = client.post(f"/collections/{name}/query", json=asked).json["results"]
    return found["id"]


def complete(client, name):
    eventually(lambda: state(client, name)["status"] == "complete")


def all_are_embedded_by_the_stub(client, name):
    asked = {"limit": 1000, "include": ["embedding"]}
    found = client.post(f"/collections/{name}/documents/search", json=asked).json["documents"]
    return [each["id"] for each in found if each["embedding"] != pytest.approx(vector(each["text"]).tolist())] == []


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
    with served(app) as url:
        yield url
