"""Ingest into a source of the test's own, and search it."""

import uuid

import pytest

BACKUPS = "Backups are kept for thirty days and encrypted at rest. They run every night at two."
HOLIDAY = "Employees have thirty days of holiday, and five more after ten years."
DOCUMENT = {"source": "test", "path": "/doc", "title": "Test", "text": "Content"}
SENTENCE = "Sentence number {} tells something about the storage of documents and of their embeddings. "


def fault(answer):
    assert answer["error"] == "Validation error"
    assert answer["message"] == answer["details"]["message"]
    return answer["details"]["field"], answer["details"]["message"]


@pytest.fixture
def source():
    """A source that no other test uses, so that a filter on it sees only this test's documents."""
    return f"s-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def ingest(client, source):
    def send(path="/doc", *, status=200, **document):
        body = {"source": source, "path": path, "title": f"Title of {path}", "text": BACKUPS, **document}
        answer = client.post("/api/rag/ingest", json=body)
        assert answer.status_code == status, answer.json
        return answer.json

    return send


@pytest.fixture
def search(client, source):
    def ask(query="how long are backups kept", *, status=200, filters=None, **more):
        body = {"query": query, "filters": {"source": source, **(filters or {})}, **more}
        answer = client.post("/api/rag/search", json=body)
        assert answer.status_code == status, answer.json
        return answer.json

    return ask
