"""Arguments of tools: checked by the schema that the tool serves. The context tools keep outcomes for idempotency keys,
and spell them again for a repeat."""

import uuid

import orjson
import pytest

from interfaces.context_tools import INDEX
from interfaces.tool import Tool
from schemas.errors import InvalidInputError
from schemas.tool_schemas import read_tool_schemas

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "default": 5},
        "metadata": {"type": "object", "properties": {"game": {"type": "string"}, "more": {"type": "object"}}},
    },
    "required": ["query"],
}


@pytest.fixture
def tool():
    return Tool("echo", "Says it again", SCHEMA, {"type": "object"}, dict, dict)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"query": "a"}, {"query": "a", "limit": 5}),
        ({"query": "a", "limit": None, "lmit": None}, {"query": "a", "limit": 5}),
        (
            {"query": "a", "other": 1},
            {"query": "a", "limit": 5, "other": 1, "warnings": ["Unknown field 'other' is ignored"]},
        ),
        ({"query": "a", "limit": 2.0}, {"query": "a", "limit": 2}),
        ({"query": "a", "metadata": {"game": None}}, {"query": "a", "limit": 5, "metadata": {}}),
        # Fields outside the schema are the caller's, including their nulls.
        (
            {"query": "a", "metadata": {"more": {"x": None}}},
            {"query": "a", "limit": 5, "metadata": {"more": {"x": None}}},
        ),
    ],
)
def test_nulls_are_absent_and_defaults_are_filled_in(tool, given, taken):
    assert tool(given) == taken


@pytest.mark.parametrize(
    ("given", "field", "sentence"),
    [
        (None, "query", "query is required"),
        ({"query": "a", "limit": 0}, "limit", "limit must be at least 1"),
        ({"query": "a", "metadata": {"game": 7}}, "metadata.game", "metadata.game must be a string"),
        ({"query": "a\ud800"}, None, "The arguments are nested too deep or not Unicode"),
        ({"query": "a", "lmit": 7}, "lmit", "Unknown field 'lmit': did you mean 'limit'?"),
        (
            {"query": "a", "metadata": {"gam": "x"}},
            "metadata.gam",
            "Unknown field 'metadata.gam': did you mean 'game'?",
        ),
        ([], "arguments", "The arguments must be an object"),
    ],
)
def test_a_wrong_argument_is_named(tool, given, field, sentence):
    with pytest.raises(InvalidInputError) as caught:
        tool(given)
    assert (caught.value.details.get("field"), caught.value.message) == (field, sentence)


def test_the_allowed_values_of_a_field_are_replaced_wherever_it_stands():
    own = read_tool_schemas("rag_context_index", {"category": ["law"]}).input["properties"]
    assert own["metadata"]["properties"]["category"]["enum"] == ["law"]
    assert own["contentType"]["enum"] == ["chat", "decision", "code", "documentation"]
    usual = read_tool_schemas("rag_context_index").input["properties"]
    assert usual["metadata"]["properties"]["category"]["enum"][-1] == "casino"


# What the context tools keep for idempotency keys.


@pytest.fixture
def key():
    return str(uuid.uuid4())


@pytest.fixture
def index(client, key):
    """`index()` indexes a text, always the same one with the same key."""
    body = {"content": f"Words of {uuid.uuid4().hex}.", "source": "tests", "contentType": "documentation"}
    return lambda: client.post(f"/tools/{INDEX}", json=body, headers={"Idempotency-Key": key})


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
