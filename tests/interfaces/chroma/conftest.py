"""A database of Chroma's protocol, asked over its own paths by a client that checks answers against openapi.yaml."""

import uuid

import pytest

DATABASE = "/api/v2/tenants/default_tenant/databases/default_database"


class Face:
    """Requests below one database. Paths of records begin with the name that the test gave a collection."""

    def __init__(self, client, database=DATABASE):
        self.client = client
        self.database = database
        self.ids = {}

    def make(self, **body):
        body = {"name": f"test-{uuid.uuid4().hex[:12]}", **body}
        answer = self.client.post(f"{self.database}/collections", json=body)
        assert answer.status_code == 200, answer.json
        self.ids[body["name"]] = answer.json["id"]
        return body["name"]

    def described(self, name):
        return self.client.get(f"{self.database}/collections/{name}")

    def post(self, name, what, **body):
        return self.client.post(f"{self.database}/collections/{self.ids.get(name, name)}/{what}", json=body)

    def get(self, name, **body):
        answer = self.post(name, "get", **body)
        assert answer.status_code == 200, answer.json
        return answer.json

    def change(self, name, **body):
        return self.client.put(f"{self.database}/collections/{self.ids[name]}", json=body)


def told(answer):
    """Return the status of an error and Chroma's word for it."""
    return answer.status_code, answer.json["error"]


@pytest.fixture
def face(client):
    return Face(client)


@pytest.fixture
def filled(face):
    """The name of a collection with three records: of the second nothing but its vector is known."""
    name = face.make()
    answer = face.post(
        name,
        "add",
        ids=["a", "b", "c"],
        embeddings=[[1, 0], [0, 1], [1, 1]],
        documents=["One fox", None, "three foxes"],
        metadatas=[{"k": 1, "tags": ["x", "y"]}, None, {"k": 2.5}],
        uris=["file:///a", None, None],
    )
    assert (answer.status_code, answer.json) == (201, {})
    return name
