"""Lines of the audit log for tools that MCP calls in vain."""

from __future__ import annotations

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.settings import AccessSettings, RetrievalSettings
from tests.interfaces.access.conftest import mcp
from tests.support.apps import running_app

ADMIN = {"X-API-Key": "administrator-of-the-tests"}
NO_SESSION = "5f2f2a57-8e2f-4f0e-9d43-0d3c9c5d7f11"
TEXT = {"path": "a.md", "content": "The door opens at nine."}


@pytest.fixture(scope="module")
def app(tmp_path_factory, processes):
    access = AccessSettings(access="keys", api_key=ADMIN["X-API-Key"])
    data_dir = tmp_path_factory.mktemp("denied")
    with running_app(data_dir, access=access, retrieval=RetrievalSettings(mcp_write=True)) as app:
        yield app


@pytest.fixture(scope="module")
def key(app):
    """`key(scope)`: the headers of a new key for the collections that begin with `mine`."""

    def make(*scopes):
        grant = Grant(frozenset(scopes), collections=("mine*",))
        _, key = app.extensions["rag.access"].stored.create("k", grant)
        return {"Authorization": f"Bearer {key}"}

    return make


def told(line):
    return (line["route"], line.get("tool"), line["scope"], line["collection"], line["status"])


@pytest.mark.parametrize(
    ("tool", "arguments", "collection", "status"),
    [
        ("session_start", {"name": "one"}, None, 200),
        ("session_start", {"name": " "}, None, 400),
        ("session_start", {}, None, 400),
        ("session_note", {"note": "x", "session_id": NO_SESSION}, None, 404),
        ("rag_context_index", TEXT, "rag-context", 403),
    ],
)
def test_a_call_has_the_status_of_what_came_of_it(client, lines, key, tool, arguments, collection, status):
    answer = mcp(client, tool, key(Scope.WRITE), **arguments)
    assert (answer.status_code, answer.json["result"]["isError"]) == (200, status != 200)
    assert [told(line) for line in lines()] == [("/mcp", tool, "write", collection, status)]


def test_a_refusal_has_the_status_that_it_has_over_http(client, lines, key):
    headers = key(Scope.WRITE)
    for arguments in (TEXT, {}):
        client.post("/tools/rag_context_index", json=arguments, headers=headers)
        mcp(client, "rag_context_index", headers, **arguments)
        over_http, over_mcp = (told(line)[1:] for line in lines())
        assert over_http == over_mcp


def test_a_call_that_the_protocol_refuses_did_nothing(client, lines, key):
    params = {"name": "session_start", "arguments": {"name": "one"}, "_meta": 5}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert "error" in client.post("/mcp", json=message, headers=key(Scope.WRITE)).json
    assert [told(line) for line in lines()] == [("/mcp", "session_start", "write", None, 400)]


@pytest.mark.parametrize(
    ("scope", "tool", "needs"), [(Scope.READ, "session_start", "write"), (Scope.CHAT, "rag_query", "read")]
)
def test_a_tool_that_is_not_the_callers_is_denied_by_name(client, lines, key, scope, tool, needs):
    answer = mcp(client, tool, key(scope), name="x", query="x")
    assert "Unknown tool" in answer.json["error"]["message"]
    assert [told(line) for line in lines()] == [("/mcp", tool, needs, None, 403)]
