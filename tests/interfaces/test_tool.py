"""Arguments of tools: checked by the schema that the tool serves. The context tools keep outcomes for idempotency keys,
and spell them again for a repeat; the contract *context* has an answer for a tool that fails in an unforeseen way too.
Tools that MCP calls have the lines of those that are called over HTTP."""

import uuid

import orjson
import pytest
from flask.testing import FlaskClient

from interfaces.recorded_tools import recorded_tools
from interfaces.tool import Tool
from schemas.access.callers import ANYBODY, acting_as
from schemas.errors import AuditUnwritableError, ConflictError, InvalidInputError, RagError, UnavailableError
from tests.wrapper.audit.conftest import lines_of
from wrapper.audit import noted
from wrapper.audit.audit_log import AuditLog
from wrapper.audit.noted import note_collection
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


# What the context tools keep for idempotency keys.


@pytest.fixture
def key():
    return str(uuid.uuid4())


@pytest.fixture
def index(client, key):
    """`index()` indexes a text, always the same one with the same key."""
    body = {"content": f"Words of {uuid.uuid4().hex}.", "source": "tests", "contentType": "documentation"}
    return lambda: client.post("/tools/rag_context_index", json=body, headers={"Idempotency-Key": key})


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


ECHOED = {"type": "object", "properties": {"text": {"type": "string"}, "number": {"type": "integer", "default": 7}}}
ECHO = "rag_context_health"


@pytest.fixture
def echoing(app, monkeypatch):
    """A client of an app of which one tool raises what `raised` holds, or returns its arguments."""
    raised = []

    def run(arguments):
        if raised:
            raise raised[0]
        return arguments

    tools = app.extensions["rag.layers"].tools
    monkeypatch.setitem(tools, ECHO, Tool(ECHO, "Says it again", ECHOED, {}, run, dict))
    client = FlaskClient(app, app.response_class)  # no answer of this tool is as it is described
    client.raised = raised
    return client


@pytest.mark.parametrize(("number", "taken"), [("12", 12), ("-1", -1), ("9" * 5_000, None), ("1.5", None), ("x", None)])
def test_whole_numbers_in_a_query_string(echoing, number, taken):
    answer = echoing.get(f"/tools/{ECHO}", query_string={"text": "12", "number": number})
    if taken is None:
        assert (answer.status_code, answer.json["details"]["field"]) == (400, "number")
    else:
        assert answer.json == {"text": "12", "number": taken}


@pytest.mark.parametrize(
    ("error", "status", "fallback"),
    [
        (RuntimeError("secret"), 500, True),
        (RagError("Something is wrong"), 500, True),
        (UnavailableError("The store does not answer"), 503, True),
        (ConflictError("It is there already"), 409, False),
    ],
)
def test_the_body_of_a_failure_says_whether_it_is_the_services(echoing, error, status, fallback):
    echoing.raised.append(error)
    answer = echoing.post(f"/tools/{ECHO}", json={})
    assert (answer.status_code, answer.json["fallback"]) == (status, fallback)
    assert answer.json["error"] == answer.json["message"] == answer.json["detail"]
    assert "secret" not in answer.get_data(as_text=True)


def tool_of(name, run, *, read_only=False):
    return Tool(name, "", {"type": "object"}, {"type": "object"}, run, lambda outcome: outcome, read_only=read_only)


def taken(arguments):
    note_collection("rag-notes")
    return {"taken": True}


def refused(arguments):
    raise ConflictError("It is there already")


def broken(arguments):
    raise KeyError("secret")


TOOLS = {
    each.name: each
    for each in (
        tool_of("session_note", taken),
        tool_of("rag_query", taken, read_only=True),
        tool_of("session_end", refused),
        tool_of("session_start", broken),
    )
}


@pytest.fixture
def recorded(tmp_path):
    log = AuditLog(tmp_path / "audit", max_bytes=1 << 20, requests_at_once=4)
    with acting_as(ANYBODY):
        yield recorded_tools(TOOLS, Recorder(log, with_reads=False))
    log.close()


def test_each_call_that_writes_has_a_line_with_its_outcome(recorded, tmp_path):
    assert recorded["session_note"]({}) == recorded["rag_query"]({}) == {"taken": True}
    with pytest.raises(ConflictError):
        recorded["session_end"]({})
    with pytest.raises(KeyError):
        recorded["session_start"]({})
    lines = lines_of(tmp_path / "audit")
    assert [(each["route"], each["tool"], each["collection"], each["status"]) for each in lines] == [
        ("/mcp", "session_note", "rag-notes", 200),
        ("/mcp", "session_end", None, 409),
        ("/mcp", "session_start", None, 500),
    ]
    assert {(each["scope"], each["key_id"], each["address"]) for each in lines} == {("write", "open", None)}
    assert noted._now.get() is None


def test_a_tool_that_cannot_be_recorded_is_not_run(recorded, tmp_path):
    (tmp_path / "audit").write_text("in the way")
    with pytest.raises(AuditUnwritableError):
        recorded["session_end"]({})
    assert recorded["rag_query"]({}) == {"taken": True}
