"""`/mcp` as any HTTP client meets it; every answer is checked against openapi.yaml."""

import gzip

import orjson
import pytest

from interfaces.mcp.exchange import exchange
from interfaces.mcp.server import tool_server
from interfaces.tool import Tool
from schemas.access.callers import ANYBODY, acting_as

MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}


@pytest.fixture
def ask(client):
    """`ask(method, params, header=…)`: the answer to a request; headers are named with underscores."""

    def post(method, params=None, **headers):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        return client.post(
            "/mcp", json=message, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )

    return post


def test_an_answer_is_json_whatever_is_accepted_and_keeps_no_session(ask):
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    answer = ask("initialize", params)
    assert (answer.status_code, answer.mimetype) == (200, "application/json")
    assert answer.json["result"]["protocolVersion"] == "2025-11-25"
    assert answer.json["result"]["serverInfo"]["name"] == "rag-wrapper"
    assert "Mcp-Session-Id" not in answer.headers
    assert ask("tools/list", MCP_Protocol_Version="2025-11-25").status_code == 200
    for accept in ({"Accept": "application/json, text/event-stream"}, {"Accept": "text/html"}, {}):
        answer = ask("ping", **accept)
        assert (answer.status_code, answer.mimetype, answer.json["result"]) == (200, "application/json", {}), accept


def test_the_protocol_of_2026_is_spoken_by_its_headers(ask):
    headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "tools/call", "Mcp_Name": "rag_collections"}
    answer = ask("tools/call", {"_meta": META, "name": "rag_collections", "arguments": {}}, **headers)
    assert (answer.status_code, answer.json["result"]["isError"]) == (200, False)
    mismatched = ask("tools/call", {"_meta": META, "name": "rag_query"}, **headers)
    assert (mismatched.status_code, mismatched.json["error"]["code"]) == (400, -32020)
    unknown = ask("tools/guess", {"_meta": META}, MCP_Protocol_Version=MODERN, Mcp_Method="tools/guess")
    assert (unknown.status_code, unknown.json["error"]["code"]) == (404, -32601)


@pytest.mark.parametrize(
    ("content", "told", "code"),
    [
        (b"", None, -32700),
        (b"\xff", None, -32700),
        (b"NaN", None, -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\\ud800"}', 1, -32700),
        (b"[" * 100_000, None, -32700),
        (b"[]", None, -32600),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', None, -32600),
        (b"{}", None, -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', 1, -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', None, -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', 1, -32600),
        (b'{"jsonrpc": "2.0", "id": 9, "method": "ping", "params": {"n": %d}}' % 2**64, 9, -32600),
        (
            b'{"jsonrpc": "2.0", "id": 9, "method": "ping", "params": {"n": %b1%b}}' % (b"[" * 199, b"]" * 199),
            9,
            -32600,
        ),
    ],
)
def test_an_invalid_message_is_refused_under_its_id(client, content, told, code):
    answer = client.post("/mcp", data=content, content_type="application/json")
    assert (answer.status_code, answer.json["id"], answer.json["error"]["code"]) == (400, told, code)
    assert "\n" not in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/unheard-of", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ],
)
def test_a_message_that_expects_no_answer_gets_none(client, message):
    answer = client.post("/mcp", json=message)
    assert (answer.status_code, answer.data) == (202, b"")


@pytest.mark.slow
def test_a_body_may_be_gzip_and_has_a_limit(app, client):
    message = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    packed = {"content_type": "application/json", "headers": {"Content-Encoding": "gzip"}}
    assert client.post("/mcp", data=gzip.compress(message), **packed).json["result"] == {}
    assert client.post("/mcp", data=b"no gzip", **packed).status_code == 400
    bomb = gzip.compress(b" " * (app.config["MAX_BODY_BYTES"] + 1))
    assert client.post("/mcp", data=bomb, **packed).json["code"] == "payload_too_large"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_are_no_streams_and_no_sessions_to_end(client, method):
    answer = client.open("/mcp", method=method)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "OPTIONS, POST")


def test_tools_that_write_are_not_offered_unless_the_operator_says_so(ask):
    names = {tool["name"] for tool in ask("tools/list").json["result"]["tools"]}
    assert {"rag_query", "rag_context", "rag_gather", "rag_collections"} <= names
    assert not {name for name in names if name.startswith("session_")}
    assert ask("tools/call", {"name": "session_start", "arguments": {"name": "x"}}).json["error"]["code"] == -32602


def test_a_defect_is_told_in_a_sentence_without_what_it_was():
    def fails(arguments):
        raise ZeroDivisionError("/secret/path")

    tool = Tool("rag_query", "Breaks.", {"type": "object"}, {"type": "object"}, fails, dict)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rag_query", "arguments": {}}}
    server = tool_server({"rag_query": tool})
    with acting_as(ANYBODY):
        status, _, content = exchange(server, {}, orjson.dumps(message), lambda *called: None)
    result = orjson.loads(content)["result"]
    assert (status, result["isError"]) == (200, True)
    assert result["content"] == [{"type": "text", "text": "The tool failed for a reason that is in the log"}]
