"""A tool that fails in an unforeseen way: the contract *context* has an answer for that too."""

from types import SimpleNamespace

import pytest
from flask import Flask

from interfaces.tool import Tool
from interfaces.web import tools
from schemas.access.callers import ANYBODY, acting_as
from schemas.errors import ConflictError, RagError, UnavailableError
from wrapper.web import error_statuses
from wrapper.web.parsing_budget import budget_of
from wrapper.web.route_table import RouteTable

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}, "number": {"type": "integer", "default": 7}}}


ECHO = "rag_context_health"
"""A name that the table of access has."""


@pytest.fixture
def client():
    """A client of an app whose one tool raises what `raised` holds, or returns its arguments."""
    raised = []

    def run(arguments):
        if raised:
            raise raised[0]
        return arguments

    app = Flask("tools")
    app.config["MAX_BODY_BYTES"] = 1_000
    app.extensions["rag.parsing"] = budget_of(1_000)
    app.extensions["rag.layers"] = SimpleNamespace(tools={ECHO: Tool(ECHO, "Says it again", SCHEMA, {}, run, dict)})
    app.extensions["rag.routes"] = RouteTable()
    app.register_blueprint(tools.blueprint)
    error_statuses.init_app(app)
    client = app.test_client()
    client.raised = raised
    with acting_as(ANYBODY):
        yield client


def test_the_answer_is_what_the_tool_returns(client):
    assert client.post("/tools/rag_context_health", json={"text": "x", "other": [None]}).json == {
        "text": "x",
        "number": 7,
        "other": [None],
    }


@pytest.mark.parametrize(("number", "taken"), [("12", 12), ("-1", -1), ("9" * 5_000, None), ("1.5", None), ("x", None)])
def test_whole_numbers_in_a_query_string(client, number, taken):
    answer = client.get("/tools/rag_context_health", query_string={"text": "12", "number": number})
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
    answer = client.post("/tools/rag_context_health", json={})
    assert (answer.status_code, answer.json["fallback"]) == (status, fallback)
    assert answer.json["error"] == answer.json["message"] == answer.json["detail"]
    assert "secret" not in answer.get_data(as_text=True)
