"""What the tests of re-embedding ask and wait for."""

import pytest

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
