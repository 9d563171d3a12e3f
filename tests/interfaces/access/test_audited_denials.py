"""Lines of the audit log for tools that MCP calls in vain, and for collections that are not the caller's."""

import re

import pytest

from schemas.access.callers import Scope
from schemas.access.table import ROUTES, TOOLS
from tests.access.asking import Request, naming, request_to
from tests.access.faults import all_faults
from tests.access.test_matrix import NAME_NONE, NAME_OWN
from tests.interfaces.access.conftest import headers_of, mcp, sent

MINE, THEIRS, OF_NOBODY = "mine-docs", "theirs-docs", "mine-nothing"
NO_SESSION = "5f2f2a57-8e2f-4f0e-9d43-0d3c9c5d7f11"
TEXT = {"path": "a.md", "content": "The door opens at nine."}


@pytest.fixture(scope="module")
def app(clocked, admin):
    for name in (MINE, THEIRS, "rag-context"):
        assert admin("POST", "/collections", {"name": name}).status_code == 201
    return clocked.app


@pytest.fixture(scope="module")
def key(app):
    """`key(scope)`: the headers of a new key for the collections that begin with `mine`."""
    return lambda *scopes: headers_of(app, *scopes, collections=("mine*",))


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


def test_a_refusal_has_the_status_that_it_has_over_http_and_what_the_protocol_refuses_did_nothing(client, lines, key):
    headers = key(Scope.WRITE)
    for arguments in (TEXT, {}):
        client.post("/tools/rag_context_index", json=arguments, headers=headers)
        mcp(client, "rag_context_index", headers, **arguments)
        over_http, over_mcp = (told(line)[1:] for line in lines())
        assert over_http == over_mcp
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


OTHERWISE = re.compile("/export$|/original$|/compare$|/api/collect$")
"""Routes that have a line whatever was asked, answer otherwise, or have no line."""


def test_a_collection_that_is_not_the_callers_is_a_denial_and_one_of_nobody_none(client, lines, key):
    headers = key(Scope.READ)
    with all_faults() as case:
        for route, row in ROUTES.items():
            if row.needs is Scope.READ and row.names not in NAME_NONE and not OTHERWISE.search(route):
                with case(route):
                    for name in (THEIRS, OF_NOBODY):
                        sent(client, request_to(route, name), headers)
                    assert [told(line)[1:] for line in lines()] == [(None, "read", THEIRS, 404)]
        for theirs, of_nobody in zip(naming(THEIRS), naming(OF_NOBODY), strict=True):
            if TOOLS[theirs.tool].needs is Scope.READ:
                with case(theirs):
                    for call in (theirs, of_nobody):
                        assert mcp(client, call.tool, headers, **call.arguments).json["result"]["isError"]
                    assert [told(line) for line in lines()] == [("/mcp", theirs.tool, "read", THEIRS, 404)]


def test_all_that_are_not_the_callers_are_named_one_of_several_too(client, lines, key):
    asked = {"query": "door", "collections": [OF_NOBODY, THEIRS, MINE, "elsewhere"]}
    assert client.post("/api/search", json=asked, headers=key(Scope.READ)).status_code == 404
    assert [told(line) for line in lines()] == [("/api/search", None, "read", f"{THEIRS},elsewhere", 404)]
    asked = {
        "userMessage": "door",
        "selectedCollections": [{"service": "local", "name": name} for name in (THEIRS, MINE, "elsewhere")]
        + [{"service": "another", "name": "docs"}],
    }
    assert client.post("/api/collect", json=asked, headers=key(Scope.READ)).status_code == 200
    asked["selectedCollections"] = [{"service": "local", "name": name} for name in (MINE, OF_NOBODY)]
    assert client.post("/api/collect", json=asked, headers=key(Scope.READ)).status_code == 200
    assert [told(line) for line in lines()] == [("/api/collect", None, "read", f"{THEIRS},elsewhere", 404)]
    for path in (f"/api/documents/x?collection={THEIRS}", f"/api/rag/documents/x?collection={THEIRS}"):
        assert client.delete(path, headers=key(Scope.WRITE)).status_code == 404
    assert [(line["collection"], line["status"]) for line in lines()] == [(THEIRS, 404)] * 2


def test_what_the_caller_did_not_name_is_no_denial(client, lines, key):
    headers = key(Scope.READ)
    for request in (
        *(
            request_to(route, None)
            for route, row in ROUTES.items()
            if row.needs is Scope.READ and row.names in NAME_OWN
        ),
        *(Request("GET", f"/api/{each}") for each in ("documents/x", "rag/documents", "rag/metrics")),
        *(Request("POST", "/api/search", {"query": "door", "collections": [f"{each}*"]}) for each in ("theirs", "no")),
        *(Request("POST", f"/tools/rag_context_{each}", {"query": "door"}) for each in ("search", "health", "stats")),
    ):
        sent(client, request, headers)
        assert lines() == [], request
    for tool, arguments in (("rag_query", {"query": "door"}), ("rag_context", {}), ("rag_collections", {})):
        assert not mcp(client, tool, headers, **arguments).json["result"]["isError"]
        assert lines() == [], tool
