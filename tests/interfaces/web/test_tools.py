"""A tool that fails in an unforeseen way: the contract *context* has an answer for that too."""

import pytest
from flask.testing import FlaskClient

from interfaces.tool import Tool
from schemas.errors import ConflictError, RagError, UnavailableError

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}, "number": {"type": "integer", "default": 7}}}
ECHO = "rag_context_health"


@pytest.fixture
def client(app, monkeypatch):
    """A client of an app of which one tool raises what `raised` holds, or returns its arguments."""
    raised = []

    def run(arguments):
        if raised:
            raise raised[0]
        return arguments

    tools = app.extensions["rag.layers"].tools
    monkeypatch.setitem(tools, ECHO, Tool(ECHO, "Says it again", SCHEMA, {}, run, dict))
    client = FlaskClient(app, app.response_class)  # no answer of this tool is as it is described
    client.raised = raised
    return client


def test_the_answer_is_what_the_tool_returns(client):
    assert client.post(f"/tools/{ECHO}", json={"text": "x"}).json == {"text": "x", "number": 7}


@pytest.mark.parametrize(("number", "taken"), [("12", 12), ("-1", -1), ("9" * 5_000, None), ("1.5", None), ("x", None)])
def test_whole_numbers_in_a_query_string(client, number, taken):
    answer = client.get(f"/tools/{ECHO}", query_string={"text": "12", "number": number})
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
def test_the_body_of_a_failure_says_whether_it_is_the_services(client, error, status, fallback):
    client.raised.append(error)
    answer = client.post(f"/tools/{ECHO}", json={})
    assert (answer.status_code, answer.json["fallback"]) == (status, fallback)
    assert answer.json["error"] == answer.json["message"] == answer.json["detail"]
    assert "secret" not in answer.get_data(as_text=True)
