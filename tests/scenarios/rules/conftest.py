"""Ingest rules into a collection of the test's own."""

import pytest

DOC_TYPES = {"core-rules", "faq", "team-rules", "ops", "killzone"}
PHASES = """# Phases

## Movement Phase

During movement a model may walk, climb, jump or dash across the killzone, one action after the other.

## Shooting Phase

Each ready model may fire a ranged weapon at an enemy in its line of sight.
"""
MOVEMENT = PHASES.split("## Shooting")[0].removeprefix("# Phases\n\n")
WEAPONS = "## Weapon Rules\n\nA bolter hits on three or more and wounds light armour. Reload after two volleys.\n"
BARRICADES = [
    "## Barricades\n\nA barricade gives light cover to models behind it. Barricade rules apply to both sides.",
    "## Cover\n\nBarricades, walls and ruins are terrain that gives cover.",
    "## Dice\n\nRoll six dice and keep the highest.",
]


def rule(filename, content, document_id=None, **metadata):
    told = {"source": "Core Rules v3.1", "doc_type": "core-rules", "last_update_date": "2025-10-02", **metadata}
    return {"document_id": document_id, "filename": filename, "content": content, "metadata": told}


def sections(context):
    return [chunk["metadata"]["section"] for chunk in context["document_chunks"]]


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
