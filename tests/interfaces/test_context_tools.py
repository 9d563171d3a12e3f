"""The context tools keep outcomes for idempotency keys, and spell them again for a repeat."""

from __future__ import annotations

import uuid

import orjson
import pytest

from interfaces.context_tools import INDEX

ROUTE = f"/tools/{INDEX}"


@pytest.fixture
def key():
    return str(uuid.uuid4())


@pytest.fixture
def index(client, key):
    """`index()` indexes a text, always the same one with the same key."""
    body = {"content": f"Words of {uuid.uuid4().hex}.", "source": "tests", "contentType": "documentation"}
    return lambda: client.post(ROUTE, json=body, headers={"Idempotency-Key": key})


def test_tools_that_write_keep_their_outcomes_as_long_as_the_collection_lives(app):
    for tool in app.extensions["rag.layers"].tools.values():
        assert (tool.kept_as is None, tool.writes_to is None) == (tool.read_only, tool.read_only)


def test_the_row_holds_the_fields_of_the_outcome_and_the_repeat_gets_the_same_bytes(app, index, key):
    first = index()
    with app.extensions["rag.service"].catalog.read() as transaction:
        row = transaction.row("SELECT outcome, collection_key FROM idempotency_keys WHERE key = ?", (key,))
    outcome = {
        "document_id": first.json["documentId"],
        "chunk_ids": first.json["vectorIds"],
        "latency_ms": first.json["latencyMs"],
    }
    assert (orjson.loads(row[0]), row[1] is None) == ({"outcome": outcome, "version": None}, False)
    again = index()
    assert (again.status_code, again.data) == (first.status_code, first.data) == (200, first.data)
    assert ("Idempotent-Replayed" in first.headers, again.headers["Idempotent-Replayed"]) == (False, "true")


def test_an_answer_that_an_earlier_release_kept_is_repeated_whatever_it_says(app, index, key):
    index()
    then = {"success": True, "chunksIndexed": 2, "vectorIds": ["a", "b"], "latencyMs": 41, "documentId": "then"}

    def keep_as_it_was(transaction):
        transaction.run("UPDATE idempotency_keys SET outcome = ? WHERE key = ?", (orjson.dumps([then, None]), key))

    app.extensions["rag.service"].catalog.commit(keep_as_it_was)
    again = index()
    assert (again.status_code, again.data) == (200, orjson.dumps(then))
    assert again.headers["Idempotent-Replayed"] == "true"
