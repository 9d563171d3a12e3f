"""Arguments of tools: checked by the schema that the tool serves. An answer that an earlier release kept for a repeat is
given again. What MCP calls is recorded or not run."""

import uuid

import orjson
import pytest

from interfaces.recorded_tools import recorded_tools
from interfaces.tool import Tool
from schemas.access.callers import ANYBODY, acting_as
from schemas.errors import AuditUnwritableError, InvalidInputError
from wrapper.audit.audit_log import AuditLog
from wrapper.audit.recording import Recorder

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
    answer = tool(given)
    assert (answer, type(answer["limit"])) == (taken, int)


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


def test_an_answer_that_an_earlier_release_kept_is_repeated_whatever_it_says(app, client):
    key = str(uuid.uuid4())
    body = {"content": f"Words of {key}.", "source": "tests", "contentType": "documentation"}

    def index():
        return client.post("/tools/rag_context_index", json=body, headers={"Idempotency-Key": key})

    index()
    then = {"success": True, "chunksIndexed": 2, "vectorIds": ["a", "b"], "latencyMs": 41, "documentId": "then"}

    def keep_as_it_was(transaction):
        transaction.run("UPDATE idempotency_keys SET outcome = ? WHERE key = ?", (orjson.dumps([then, None]), key))

    app.extensions["rag.service"].catalog.commit(keep_as_it_was)
    again = index()
    assert (again.status_code, again.data) == (200, orjson.dumps(then))
    assert again.headers["Idempotent-Replayed"] == "true"


def test_whole_numbers_in_a_query_string(client):
    asked = {"query": "12", "limit": "12"}
    assert client.get("/tools/rag_context_search", query_string=asked).status_code == 200
    for number in ("9" * 5_000, "1.5", "x"):
        answer = client.get("/tools/rag_context_search", query_string=asked | {"limit": number})
        assert (answer.status_code, answer.json["details"]["field"]) == (400, "limit"), number[:9]


def test_a_tool_that_cannot_be_recorded_is_not_run_for_mcp_unless_it_only_reads(tmp_path):
    def tool_of(name):
        return Tool(name, "", {"type": "object"}, {"type": "object"}, lambda arguments: ran.append(name), dict)

    ran, log = [], AuditLog(tmp_path / "audit", max_bytes=1 << 20, requests_at_once=4)
    tools = {name: tool_of(name) for name in ("session_end", "rag_query")}
    recorded = recorded_tools(tools, Recorder(log, with_reads=False))
    (tmp_path / "audit").write_text("in the way")
    with acting_as(ANYBODY):
        with pytest.raises(AuditUnwritableError):
            recorded["session_end"].run({})
        recorded["rag_query"].run({})
    log.close()
    assert ran == ["rag_query"]
