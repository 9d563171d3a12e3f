"""No caller sees what another one made: every route and tool distinguishes its callers."""

from __future__ import annotations

import pytest

from interfaces.web import current_request
from registry.topics import conversations
from registry.topics.conversations import Conversations
from registry.topics.topic import TopicByRule
from retrieval.chat import history
from retrieval.sessions import sessions
from retrieval.watching import stored_reports
from schemas.contracts.collect import CollectRequest
from schemas.owners import OPEN
from schemas.settings import RetrievalSettings
from tests.support.catalogues import one_database
from wrapper.catalog.catalog import Catalog


@pytest.fixture(scope="module")
def app(app_of_models):
    return app_of_models(topic="rule", retrieval=RetrievalSettings(mcp_write=True))


@pytest.fixture
def asks(monkeypatch):
    """`asks(owner)`: makes this owner the caller from then on."""
    return lambda owner: monkeypatch.setattr(current_request, "owner", lambda: owner)


@pytest.fixture
def call(client):
    def call_tool(tool, /, **arguments):
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        return client.post("/mcp", json=message).json["result"]

    return call_tool


def test_the_same_conversation_id_is_another_conversation_for_another_caller(client, asks):
    for owner in ("ada", "grace"):
        asks(owner)
        assert client.get("/api/chat/ours").status_code == 404
        assert client.post("/api/chat", json={"message": f"I am {owner}.", "conversationId": "ours"}).status_code == 200
    for owner in ("ada", "grace"):
        asks(owner)
        said = client.get("/api/chat/ours").json["messages"]
        assert [each["content"] for each in said] == [f"I am {owner}.", "So it is."]
    assert client.delete("/api/chat/ours").status_code == 200
    assert client.get("/api/chat/ours").status_code == 404
    asks("ada")
    assert client.get("/api/chat/ours").status_code == 200


@pytest.mark.parametrize("conversation_id", ["a/b", "/a//b/", "a b", "%2F", "é/…", "x" * 200, "...", "a\u2028b"])
def test_a_conversation_s_id_is_read_and_erased_by_path_as_it_was_made(client, conversation_id):
    from urllib.parse import quote

    path = f"/api/chat/{quote(conversation_id, safe='')}"
    assert client.post("/api/chat", json={"message": "Hi", "conversationId": conversation_id}).status_code == 200
    assert client.get(path).json["conversationId"] == conversation_id
    assert client.delete(path).json["conversationId"] == conversation_id
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("conversation_id", [".", "..", "a/../b", "./a", "a\nb", "\0", "x" * 201, " "])
def test_an_id_that_no_path_could_have_is_refused_when_it_is_chosen(client, conversation_id):
    answer = client.post("/api/chat", json={"message": "Hi", "conversationId": conversation_id})
    assert (answer.status_code, answer.json["details"]["field"]) == (400, "conversationId")


def test_the_topic_of_a_conversation_is_its_caller_s(client, asks, collection):
    assert client.post("/collections", json={"name": collection}).status_code == 201

    def receipt(message):
        body = {
            "userMessage": message,
            "topic": "",
            "currentTopic": "",
            "conversationId": "ours",
            "selectedCollections": [{"service": "local", "name": collection}],
        }
        answer = client.post("/api/collect", json=body)
        assert answer.status_code == 200, answer.json
        return answer.json["receipt"]["query_text"]

    asks("ada")
    receipt("What is InstructLab?")
    assert "instructlab" in receipt("Does it integrate with OpenShift?").lower()
    asks("grace")
    assert "instructlab" not in receipt("Does it integrate with OpenShift?").lower()


def test_watchers_are_their_reporter_s(client, asks):
    for owner in ("ada", "grace"):
        asks(owner)
        report = {
            "instance": f"{owner}:1",
            "state": "watching",
            "collection": f"of-{owner}",
            "started_at": "2026-11-22T08:30:00Z",
        }
        assert client.put("/api/watchers/docs", json=report).status_code == 200
    for owner in ("ada", "grace"):
        asks(owner)
        assert [each["instance"] for each in client.get("/api/watchers").json["watchers"]] == [f"{owner}:1"]
        assert client.get("/api/watchers/docs").json["collection"] == f"of-{owner}"
    assert client.delete("/api/watchers/docs").status_code == 200
    asks("ada")
    assert client.get("/api/watchers/docs").status_code == 200


def test_sessions_and_notes_are_found_by_their_maker_only_by_every_route(client, call, asks):
    notes = {}
    for owner in ("ada", "grace"):
        asks(owner)
        assert call("session_note", note="Nobody started this.")["isError"]
        call("session_start", name=f"of {owner}")
        notes[owner] = call("session_note", note="Zebras are striped.")["structuredContent"]["note_id"]
    for owner, other in (("ada", "grace"), ("grace", "ada")):
        asks(owner)
        found = call("rag_query", query="Zebras", oracles=["persona"])["structuredContent"]["results"]
        searched = client.post("/api/search", json={"query": "Zebras", "oracles": ["persona"]}).json["results"]
        assert [each["chunk_id"] for each in found] == [each["chunk_id"] for each in searched] == [notes[owner]]
        for arguments in ({}, {"topic": "Zebras"}):
            sources = call("rag_context", **arguments)["structuredContent"]["sources"]
            assert notes[other] not in {each["chunk_id"] for each in sources}
        refused = call("session_note", note="x", supersedes=notes[other])
        assert (refused["isError"], "There is no note" in refused["content"][0]["text"]) == (True, True)
        assert call("session_end")["structuredContent"]["name"] == f"of {owner}"


@pytest.fixture(params=["sqlite", "postgresql"])
def catalog(request):
    with one_database(request) as open_one:
        catalog = Catalog(open_one())
        catalog.open()
        yield catalog


def test_data_made_before_there_were_owners_belongs_to_callers_of_the_open_service(catalog):
    parts = {"conversations": conversations, "chat history": history, "sessions": sessions, "watchers": stored_reports}
    for part, module in parts.items():
        catalog.open_part(part, module.STEPS[:1])

    def fill(transaction):
        transaction.run("INSERT INTO conversation_topics VALUES ('c', 'InstructLab', 1)")
        transaction.run("INSERT INTO chat_messages VALUES ('c', 0, 'user', 'Hi', 0, '[]', 'then')")
        transaction.run("INSERT INTO note_sessions VALUES ('s', 0, 'before', 'then', NULL)")
        report = '{"instance":"i","state":"stopped","collection":"c","started_at":"then","failures":[]}'
        transaction.run("INSERT INTO watchers VALUES ('docs', 1, ?)", (report,))

    catalog.commit(fill)
    kept = Conversations(catalog, TopicByRule, lambda: 2.0)
    request = CollectRequest("Does it scale?", "", "", ())
    assert kept.follow("c", request, owner="ada").current_topic == ""
    assert kept.follow("c", request, owner=OPEN).current_topic == "InstructLab"
    messages = history.ChatHistory(catalog)
    assert [each.content for each in messages.messages("c", owner=OPEN)] == ["Hi"]
    assert messages.messages("c", owner="ada") == []
    assert sessions.Sessions(catalog).open_session(None, owner=OPEN).name == "before"
    assert [each.name for each in stored_reports.Watchers(catalog).all(owner=OPEN)] == ["docs"]
    assert stored_reports.Watchers(catalog).all(owner="ada") == []
