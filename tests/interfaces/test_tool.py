"""Arguments of tools: checked by the schema that the tool serves."""

from __future__ import annotations

import pytest

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
