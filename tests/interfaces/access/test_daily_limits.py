"""Keys with limits for a day ask a service that has an embedding service and a chat model. Below the disk floor nothing
is added beside the documents either; reads go on, and what takes away does."""

import pytest

from schemas.access.callers import Limits, Scope
from schemas.settings import RetrievalSettings
from tests.interfaces.access.conftest import app_with_keys, headers_of, mcp, rows_of
from tests.support.apps import models_of
from tests.support.model_server import model_server

TEXT = {"source": "notes", "path": "a.md", "title": "A", "text": "The gateway rotates its keys every night."}


class World:
    def __init__(self, app):
        self.app = app

    def key(self, *scopes, **limits):
        """Return the headers of a new key."""
        return headers_of(self.app, *map(Scope, scopes or ("manage", "chat")), limits=Limits(**limits))

    def post(self, route, key, **body):
        return self.app.test_client().post(route, headers=key, json=body)


@pytest.fixture
def world(clocked):
    return World(clocked.app)


def test_chat_calls_are_refused_beyond_the_limit(world):
    key = world.key(chats_per_day=1)
    asked = {"message": "Hello?", "useRag": False}
    first = world.post("/api/chat", key, **asked)
    assert first.status_code == 200, first.text
    assert first.headers["RateLimit-Policy"] == '"chats_per_day";q=1;w=86400;qu="chats"'
    assert first.headers["RateLimit"].startswith('"chats_per_day";r=0;t=')
    refused = world.post("/api/chat", key, **asked)
    assert (refused.status_code, refused.json["code"]) == (429, "rate_limited")
    assert refused.json["error"] == "Too many requests"
    assert refused.headers["RateLimit"] == f'"chats_per_day";r=0;t={refused.headers["Retry-After"]}'
    assert 1 <= int(refused.headers["Retry-After"]) <= 86_400
    assert world.post("/api/chat", world.key(chats_per_day=1), **asked).status_code == 200


@pytest.mark.slow
def test_documents_and_questions_are_charged_and_what_is_remembered_is_not(world, clocked):
    def asked():
        return sum(request.path.endswith("/embeddings") for request in clocked.models.requests)

    key = world.key(embedded_tokens_per_day=12)
    document = {"source": "notes", "path": "a.md", "title": "A", "text": "one two three four five six seven eight"}
    assert world.post("/api/rag/ingest", key, **document).status_code == 200
    owner = world.app.extensions["rag.access"].caller_with(key["Authorization"].split()[1]).owner
    daily_use = world.app.extensions["rag.daily_use"]
    after_document, _ = daily_use.used(owner)
    assert after_document >= 8
    assert world.post("/api/rag/search", key, query="one two three four five").status_code == 200
    after_question, _ = daily_use.used(owner)
    assert after_question > after_document
    calls = asked()
    assert world.post("/api/rag/search", key, query="one two three four five").status_code == 200
    assert (daily_use.used(owner)[0], asked()) == (after_question, calls)
    refused = world.post("/api/rag/search", key, query="another question of the same caller")
    assert (refused.status_code, refused.json["code"]) == (429, "rate_limited")
    assert refused.json["details"]["limit"] == "embedded_tokens_per_day"
    another = world.post("/api/rag/ingest", key, source="notes", path="b.md", title="B", text="other words")
    assert (another.status_code, another.json["code"]) == (429, "rate_limited")
    assert asked() == calls


def test_without_tokens_a_search_by_words_goes_on_and_says_so_and_one_by_meaning_alone_is_refused(world):
    key = world.key(embedded_tokens_per_day=0)
    assert world.post("/api/rag/ingest", world.key(), **TEXT).status_code == 200
    answer = world.post("/api/search", key, query="gateway keys")
    assert answer.status_code == 200
    assert [hit["content"] for hit in answer.json["results"]] == [TEXT["text"]]
    assert "embedded tokens a day" in answer.text
    asked = {"query": "gateway keys", "oracles": ["semantic"]}
    refused = [world.post("/api/search", key, **asked), world.post("/api/rag/search", key, query="gateway keys")]
    assert [(each.status_code, each.json["code"]) for each in refused] == [(429, "rate_limited")] * 2
    waits = [int(each.headers["Retry-After"]) for each in refused]
    assert abs(waits[0] - waits[1]) <= 60
    assert refused[0].json["details"]["limit"] == "embedded_tokens_per_day"
    result = mcp(world.app.test_client(), "rag_query", key, **asked).json["result"]
    assert result["isError"]
    assert result["content"][0]["text"] == refused[0].json["message"]


@pytest.mark.slow
def test_a_model_decides_on_topics_only_for_who_may_chat_and_as_often_as_they_may(tmp_path):
    asked = {"userMessage": "How do tomatoes grow?", "conversationId": "c", "selectedCollections": []}
    with model_server() as server, app_with_keys(tmp_path, models_of(server, topic="chat"), RetrievalSettings()) as app:
        world = World(app)

        def chats():
            return sum(request.path.endswith("/chat/completions") for request in server.requests)

        for scopes, limits, times, most in (
            (["read"], {}, 2, 0),
            (["read", "chat"], {}, 2, 2),
            (["read", "chat"], {"chats_per_day": 1}, 3, 1),
        ):
            key, before = world.key(*scopes, **limits), chats()
            for _ in range(times):
                answer = world.post("/api/collect", key, **asked)
                assert answer.status_code == 200, answer.text
            assert chats() - before == most


ADMIN_KEY = "the-key-of-an-administrator"
ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}"}
REPORT = {"instance": "one:1", "state": "watching", "collection": "docs"}
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
    return lambda method, path, body=None: client.open(path, method=method, json=body, headers=ADMIN)


@pytest.fixture
def fill(app, monkeypatch):
    """`fill()`: from then on the disk has less room than it must have."""
    return lambda: monkeypatch.setattr(app.extensions["rag.service"].store.writing, "_disk_floor_mb", 1 << 40)


def test_nothing_is_added_and_what_takes_away_is_done(app, ask, fill):
    def call(tool, **arguments):
        return mcp(app.test_client(), tool, ADMIN, **arguments).json["result"]

    first, second = (ask("POST", "/api/keys", {**KEY, "scopes": ["read", "write"]}).json["id"] for _ in range(2))
    assert ask("POST", "/api/connections", {"id": "mine", **CONNECTION}).status_code == 201
    ask("PUT", "/api/watchers/docs", REPORT)
    ask("POST", "/api/chat", {"message": "Hello?", "conversationId": "c", "useRag": False})
    session_id = call("session_start", name="one")["structuredContent"]["session_id"]
    tables = ("watchers", "connections", "api_keys", "note_sessions", "jobs")
    before = [rows_of(app, f"SELECT * FROM {table}") for table in tables]
    fill()
    for method, path, body in (
        ("PUT", "/api/watchers/more", REPORT),
        ("POST", "/api/connections", {"id": "more", **CONNECTION}),
        ("PUT", "/api/connections/mine", {"config": {}, "display_name": "Mine"}),
        ("POST", "/api/keys", KEY),
        ("POST", f"/api/keys/{first}/rotate", {}),
    ):
        answer = ask(method, path, body)
        assert (answer.status_code, answer.json["code"]) == (507, "disk_floor_reached"), (method, path)
    assert call("session_start", name="more")["isError"]
    assert [rows_of(app, f"SELECT * FROM {table}") for table in tables] == before
    for method, path, body in (
        ("PATCH", f"/api/keys/{first}", {"scopes": ["read"]}),
        ("DELETE", f"/api/keys/{second}", None),
        ("DELETE", "/api/connections/mine", None),
        ("DELETE", "/api/watchers/docs", None),
        ("DELETE", "/api/chat/c", None),
    ):
        assert ask(method, path, body).status_code == 200, (method, path)
    assert not call("session_end", session_id=session_id).get("isError")
    emptied = ("connections", "watchers", "chat_messages")
    assert [rows_of(app, f"SELECT * FROM {table}") for table in emptied] == [[], [], []]


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
    assert [rows_of(app, f"SELECT * FROM {table}") for table in tables] == [[], [], [], []]


def test_daily_limits_are_counted_all_the_same(app, fill):
    headers = headers_of(app, Scope.CHAT, limits=Limits(chats_per_day=1))
    fill()
    asked = {"message": "Hello?", "useRag": False}
    client = app.test_client()
    assert [client.post("/api/chat", json=asked, headers=headers).status_code for _ in range(2)] == [200, 429]
