"""Contract *search*, "MCP Integration": tool definitions, and thin adapters over one retrieval layer."""

import pytest


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


def said(result):
    return result["content"][0]["text"]


def property_of(tool, name):
    return tool["inputSchema"]["properties"][name]


def test_names_arguments_and_defaults_are_as_in_the_contract_with_our_prefix(app, tools):
    query = tools["rag_query"]
    assert (property_of(query, "limit")["type"], property_of(query, "limit")["default"]) == ("integer", 10)
    assert all(oracle in query["description"] for oracle in ("semantic search", "lexical search"))
    assert property_of(query, "oracles")["items"]["enum"] == app.extensions["rag.layers"].search.names
    for tool, argument, required in (
        ("rag_query", "query", True),
        ("rag_context", "topic", False),
        ("session_start", "name", True),
        ("session_note", "note", True),
        ("session_end", "summary", False),
    ):
        assert property_of(tools[tool], argument)["type"] == "string", tool
        assert tools[tool]["inputSchema"].get("required", []) == [argument] * required, tool


def test_the_same_question_has_the_same_answer_over_every_interface(call, client, knowledge):
    """All interfaces call the SAME retrieval layer. No interface-specific logic in retrieval."""
    over_mcp = call("rag_query", query="What is an error?", limit=5)["structuredContent"]["results"]
    over_http = client.post("/api/search", json={"query": "What is an error?", "limit": 5}).json["results"]
    assert over_mcp == over_http
    assert over_mcp[0]["content"].endswith("Every error is one sentence.")
    assert over_mcp[0]["sources"] == ["semantic", "lexical"]
    assert over_mcp[0]["rrf_score"] == pytest.approx(2 / 61)


def test_context_returns_rules_and_knowledge_of_a_topic_or_of_all(call, knowledge):
    text = said(call("rag_context", topic="testing"))
    assert text.index("## Rules") < text.index("Tests use real parts and never sleep.")
    titles = {each["title"] for each in call("rag_context")["structuredContent"]["sources"]}
    assert {"Error handling", "Testing"} <= titles


def test_session_knowledge_is_in_results(call, client, knowledge):
    """A session's notes are found in that session and after it, by way of the persona too."""
    silent = call("session_note", note="Nobody listens.")
    assert silent["isError"]
    assert said(silent) == "No session is open: start one with session_start"
    try:
        call("session_start", name="Lunch")
        note = call("session_note", note="The lasagne is best on Thursdays.")["structuredContent"]
        assert "The lasagne is best on Thursdays." in said(call("rag_query", query="When is the lasagne best?"))
        ended = call("session_end", summary="Lunch is settled.")["structuredContent"]
        assert ended["notes"] == 1
        asked = {"query": "lasagne", "oracles": ["persona"], "min_relevance": 0}
        found = call("rag_query", **asked)["structuredContent"]["results"]
        assert {note["note_id"], ended["summary_id"]} == {each["chunk_id"] for each in found}
        assert "The lasagne is best on Thursdays." in said(call("rag_context", topic="lasagne"))
    finally:
        client.delete("/collections/rag-notes")
