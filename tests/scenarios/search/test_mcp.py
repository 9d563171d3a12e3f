"""Contract *search*, "MCP Integration": tool definitions, the server's loop, and thin adapters over one retrieval
layer."""

import subprocess
import sys

import orjson
import pytest

from tests.support.commands import RUN_MAIN

SERVED = (*RUN_MAIN, "mcp")


@pytest.fixture
def ask(client):
    def post(method, **params):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = client.post("/mcp", json=message)
        assert answer.status_code == 200
        return answer.json

    return post


@pytest.fixture
def call(ask):
    def call_tool(tool, /, **arguments):
        return ask("tools/call", name=tool, arguments=arguments)["result"]

    return call_tool


@pytest.fixture
def tools(ask):
    return {tool["name"]: tool for tool in ask("tools/list")["result"]["tools"]}


@pytest.fixture(scope="module")
def knowledge(app):
    client = app.test_client()
    for each in client.get("/collections").json["collections"]:  # an overview lists some documents of each only
        client.delete(f"/collections/{each['name']}")
    body = {"source": "wiki", "path": "/errors", "title": "Error handling", "text": "Every error is one sentence."}
    assert client.post("/api/rag/ingest", json=body).status_code == 200
    rule = {
        "filename": "testing.md",
        "content": "# Testing\n\nTests use real parts and never sleep.",
        "metadata": {"source": "handbook", "doc_type": "ops", "last_update_date": "2026-01-31"},
    }
    assert client.post("/api/rag/documents:batch", json={"documents": [rule]}).json["documents_failed"] == 0


@pytest.fixture(scope="module")
def answers(tmp_path_factory, processes):
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        b"",
        orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}),
        b"",
        b"{not json",
        orjson.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        orjson.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        orjson.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "rag_collections"}}),
        orjson.dumps({"jsonrpc": "2.0", "id": 4, "method": "no/such/method"}),
    ]
    environ = {"RAG_DATA_DIR": str(tmp_path_factory.mktemp("loop")), "PATH": "/usr/bin", "RAG_DISK_FLOOR_MB": "1"}
    ended = subprocess.run(
        SERVED,
        input=b"\n".join(lines),
        env=environ,
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
        timeout=60,
        check=True,
    )
    return {each["id"]: each for each in map(orjson.loads, ended.stdout.splitlines())}


def said(result):
    return result["content"][0]["text"]


def property_of(tool, name):
    return tool["inputSchema"]["properties"][name]


class TestToolDefinitions:
    """Names, arguments and defaults are as in the contract, with our prefix for `patina`."""

    def test_query_takes_a_query_and_a_limit_of_ten(self, tools):
        query = tools["rag_query"]
        assert query["inputSchema"]["required"] == ["query"]
        assert property_of(query, "query")["type"] == "string"
        assert (property_of(query, "limit")["type"], property_of(query, "limit")["default"]) == ("integer", 10)
        for oracle in ("semantic search", "lexical search"):
            assert oracle in query["description"]

    def test_query_knows_the_existing_oracles(self, app, tools):
        named = property_of(tools["rag_query"], "oracles")["items"]["enum"]
        assert named == app.extensions["rag.layers"].search.names

    def test_context_takes_an_optional_topic(self, tools):
        assert property_of(tools["rag_context"], "topic")["type"] == "string"
        assert not tools["rag_context"]["inputSchema"]["required"]

    def test_session_start_takes_a_name(self, tools):
        assert tools["session_start"]["inputSchema"]["required"] == ["name"]

    def test_session_note_takes_a_note(self, tools):
        assert tools["session_note"]["inputSchema"]["required"] == ["note"]

    def test_session_end_takes_an_optional_summary(self, tools):
        assert property_of(tools["session_end"], "summary")["type"] == "string"
        assert not tools["session_end"]["inputSchema"]["required"]


class TestTools:
    def test_query_is_fused_with_provenance(self, call, knowledge):
        """Results are fused from semantic search, lexical search and persona."""
        result = call("rag_query", query="What is an error?")
        first = result["structuredContent"]["results"][0]
        assert first["content"].endswith("Every error is one sentence.")
        assert first["sources"] == ["semantic", "lexical"]
        assert first["rrf_score"] == pytest.approx(2 / 61)

    def test_the_same_question_has_the_same_answer_over_every_interface(self, call, client, knowledge):
        """All interfaces call the SAME retrieval layer. No interface-specific logic in retrieval."""
        over_mcp = call("rag_query", query="error", limit=5)["structuredContent"]["results"]
        over_http = client.post("/api/search", json={"query": "error", "limit": 5}).json["results"]
        assert over_mcp == over_http

    def test_context_returns_rules_and_knowledge_of_a_topic(self, call, knowledge):
        text = said(call("rag_context", topic="testing"))
        assert "Tests use real parts and never sleep." in text
        assert text.index("## Rules") < text.index("Tests use real parts")

    def test_context_works_without_a_topic(self, call, knowledge):
        titles = {each["title"] for each in call("rag_context")["structuredContent"]["sources"]}
        assert {"Error handling", "Testing"} <= titles

    def test_session_knowledge_is_in_results(self, call, client, knowledge):
        """A session's notes are found in that session and after it, by way of the persona too."""
        try:
            call("session_start", name="Lunch")
            note = call("session_note", note="The lasagne is best on Thursdays.")["structuredContent"]
            assert "The lasagne is best on Thursdays." in said(call("rag_query", query="When is the lasagne best?"))
            ended = call("session_end", summary="Lunch is settled.")["structuredContent"]
            assert ended["notes"] == 1
            found = call("rag_query", query="lasagne", oracles=["persona"], min_relevance=0)["structuredContent"][
                "results"
            ]
            assert {note["note_id"], ended["summary_id"]} == {each["chunk_id"] for each in found}
            assert "The lasagne is best on Thursdays." in said(call("rag_context", topic="lasagne"))
        finally:
            client.delete("/collections/rag-notes")

    def test_a_note_needs_a_current_session(self, call):
        result = call("session_note", note="Nobody listens.")
        assert result["isError"]
        assert said(result) == "No session is open: start one with session_start"


class TestServerLoop:
    """One JSON-RPC message per line, over standard input and output."""

    def test_each_request_is_answered_once_and_notifications_are_not(self, answers):
        assert answers.keys() == {1, None, 2, 3, 4}
        assert all(each["jsonrpc"] == "2.0" for each in answers.values())

    def test_initialize_names_the_server_and_offers_tools(self, answers):
        assert answers[1]["result"]["serverInfo"]["name"] == "rag-wrapper"
        assert "tools" in answers[1]["result"]["capabilities"]

    def test_a_line_that_is_not_json_is_answered_and_the_server_goes_on(self, answers):
        error = answers[None]["error"]
        assert error["code"] == -32700
        assert "not valid JSON" in error["message"]

    def test_tools_are_listed(self, answers):
        names = {tool["name"] for tool in answers[2]["result"]["tools"]}
        assert {"rag_query", "rag_context", "session_start", "session_note", "session_end"} <= names

    def test_a_tool_is_called(self, answers):
        assert answers[3]["result"]["structuredContent"] == {"collections": []}

    def test_an_unknown_method_is_not_found(self, answers):
        assert answers[4]["error"]["code"] == -32601
        assert answers[4]["error"]["message"] == "Method not found"
