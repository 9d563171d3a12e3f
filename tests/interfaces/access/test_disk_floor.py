"""Below the disk floor nothing is added beside the documents either; reads go on, and what takes away does."""

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import Limits, Scope
from schemas.settings import RetrievalSettings
from tests.interfaces.access.conftest import app_with_keys, mcp
from tests.support.apps import models_of
from tests.support.model_server import model_server

ADMIN_KEY = "the-key-of-an-administrator"
REPORT = {"instance": "one:1", "state": "watching", "collection": "docs", "started_at": "2026-11-22T08:30:00Z"}
CONNECTION = {"type": "rag", "provider": "local", "config": {}}
KEY = {"name": "another", "scopes": ["read"]}


@pytest.fixture
def app(tmp_path):
    settings = RetrievalSettings(mcp_write=True)
    with (
        model_server() as server,
        app_with_keys(tmp_path, models_of(server, topic="rule"), settings, api_key=ADMIN_KEY) as app,
    ):
        yield app


@pytest.fixture
def ask(app):
    """`ask(method, path, body)`: the answer to a key that may do everything."""
    client = app.test_client()

    def ask(method, path, body=None):
        return client.open(path, method=method, json=body, headers={"Authorization": f"Bearer {ADMIN_KEY}"})

    return ask


@pytest.fixture
def call(app):
    client = app.test_client()

    def call(tool, **arguments):
        return mcp(client, tool, {"Authorization": f"Bearer {ADMIN_KEY}"}, **arguments).json["result"]

    return call


@pytest.fixture
def fill(app, monkeypatch):
    """`fill()`: from then on the disk has less room than it must have."""
    return lambda: monkeypatch.setattr(app.extensions["rag.service"].store.writing, "_disk_floor_mb", 1 << 40)


def rows(app, table):
    with app.extensions["rag.service"].catalog.read() as transaction:
        return transaction.rows(f"SELECT * FROM {table}")


def test_nothing_is_added(app, ask, call, fill):
    key = ask("POST", "/api/keys", KEY).json
    assert ask("POST", "/api/connections", {"id": "mine", **CONNECTION}).status_code == 201
    tables = ("watchers", "connections", "api_keys", "note_sessions", "jobs")
    before = [rows(app, table) for table in tables]
    fill()
    for method, path, body in (
        ("PUT", "/api/watchers/docs", REPORT),
        ("POST", "/api/connections", {"id": "more", **CONNECTION}),
        ("PUT", "/api/connections/mine", {"config": {}, "display_name": "Mine"}),
        ("POST", "/api/keys", KEY),
        ("POST", f"/api/keys/{key['id']}/rotate", {}),
    ):
        answer = ask(method, path, body)
        assert (answer.status_code, answer.json["code"]) == (507, "disk_floor_reached"), (method, path)
    assert call("session_start", name="more")["isError"]
    assert [rows(app, table) for table in tables] == before


def test_what_takes_away_is_done(app, ask, call, fill):
    first, second = (ask("POST", "/api/keys", {**KEY, "scopes": ["read", "write"]}).json["id"] for _ in range(2))
    ask("POST", "/api/connections", {"id": "mine", **CONNECTION})
    ask("PUT", "/api/watchers/docs", REPORT)
    ask("POST", "/api/chat", {"message": "Hello?", "conversationId": "c", "useRag": False})
    session_id = call("session_start", name="one")["structuredContent"]["session_id"]
    fill()
    for method, path, body in (
        ("PATCH", f"/api/keys/{first}", {"scopes": ["read"]}),
        ("DELETE", f"/api/keys/{second}", None),
        ("DELETE", "/api/connections/mine", None),
        ("DELETE", "/api/watchers/docs", None),
        ("DELETE", "/api/chat/c", None),
    ):
        assert ask(method, path, body).status_code == 200, (method, path)
    assert not call("session_end", session_id=session_id).get("isError")
    assert [rows(app, table) for table in ("connections", "watchers", "chat_messages")] == [[], [], []]


def test_reads_and_answers_go_on_and_are_not_kept(app, ask, fill):
    text = {"source": "a", "path": "/b", "title": "c", "text": "Tomatoes grow in the sun."}
    assert ask("POST", "/api/rag/ingest", text).status_code in (200, 201, 202)
    tables = ("search_metrics", "kept_answers", "conversation_topics", "chat_messages")
    fill()
    collected = {"userMessage": "How do tomatoes grow?", "conversationId": "c", "selectedCollections": []}
    for path, body in (
        ("/tools/rag_context_search", {"query": "tomatoes"}),
        ("/api/rag/retrieve", {"query": "tomatoes", "context_key": "k"}),
        ("/api/collect", collected),
        ("/api/chat", {"message": "Hello?", "conversationId": "c", "useRag": False}),
        ("/tools/rag_context_stats", {}),  # which waits for the metrics
    ):
        answer = ask("POST", path, body)
        assert answer.status_code == 200, (path, answer.json)
    assert [rows(app, table) for table in tables] == [[], [], [], []]


def test_daily_limits_are_counted_all_the_same(app, fill):
    grant = Grant(frozenset({Scope.CHAT}), limits=Limits(chats_per_day=1))
    text = app.extensions["rag.access"].stored.create("chats", grant)[1]
    fill()
    asked, headers = {"message": "Hello?", "useRag": False}, {"Authorization": f"Bearer {text}"}
    client = app.test_client()
    assert [client.post("/api/chat", json=asked, headers=headers).status_code for _ in range(2)] == [200, 429]
