"""Ingest rules into a collection of the test's own."""

import pytest


@pytest.fixture
def ingest(client, collection):
    def send(*documents, to=collection, status=200, **more):
        answer = client.post("/api/rag/documents:batch", json={"documents": documents, "collection": to, **more})
        assert answer.status_code == status, answer.json
        return answer.json

    return send


@pytest.fixture
def retrieve(client, collection):
    def ask(query, *, context_key="test:user1", status=200, **more):
        body = {"query": query, "context_key": context_key, "collection": collection, **more}
        answer = client.post("/api/rag/retrieve", json=body)
        assert answer.status_code == status, answer.json
        return answer.json

    return ask


@pytest.fixture
def chunks(client, collection):
    def read(**where):
        found = client.post(f"/collections/{collection}/documents/search", json={"where": where, "limit": 1000}).json
        return sorted(found["documents"], key=lambda each: each["metadata"]["chunk_index"])

    return read
