"""Keys with limits for a day ask a service that has an embedding service and a chat model."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest

from interfaces.compose import create_app
from schemas.access.api_keys import Grant
from schemas.access.callers import Limits, Scope
from schemas.settings import AccessSettings, RetrievalSettings, WrapperSettings
from tests.support.apps import ONE_LOOK, models_of
from tests.support.contract import CheckedClient
from tests.support.model_server import model_server

NOBODY = "http://127.0.0.1:9"


class World:
    def __init__(self, app, server):
        self.app = app
        self.server = server

    def key(self, **limits):
        """Return the headers of a new key."""
        grant = Grant(frozenset({Scope.MANAGE, Scope.CHAT}), limits=Limits(**limits))
        return {"Authorization": f"Bearer {self.app.extensions['rag.access'].stored.create('limited', grant)[1]}"}

    def post(self, route, key, **body):
        return self.app.test_client().post(route, headers=key, json=body)

    def embedded(self):
        return sum(request.path.endswith("/embeddings") for request in self.server.requests)

    def chats(self):
        return sum(request.path.endswith("/chat/completions") for request in self.server.requests)


@pytest.fixture
def world(tmp_path):
    with running_world(tmp_path) as world:
        yield world


@pytest.fixture
def topical_world(tmp_path):
    """A world in which the chat model decides on the topics of conversations."""
    with running_world(tmp_path, topic="chat") as world:
        yield world


@contextmanager
def running_world(directory, **registry):
    with model_server() as server:
        app = create_app(
            WrapperSettings(
                data_dir=directory, chroma_url=NOBODY, write_wait_seconds=0.0, log_level="error", log_format="json"
            ),
            replace(models_of(server, **registry), health_look_seconds=ONE_LOOK),
            RetrievalSettings(),
            AccessSettings(access="keys", api_key="an-administrators-key"),
        )
        app.test_client_class = CheckedClient
        try:
            yield World(app, server)
        finally:
            app.extensions["rag.service"].close()


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


def test_documents_and_questions_are_charged_and_what_is_remembered_is_not(world):
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
    calls = world.embedded()
    assert world.post("/api/rag/search", key, query="one two three four five").status_code == 200
    assert (daily_use.used(owner)[0], world.embedded()) == (after_question, calls)
    refused = world.post("/api/rag/search", key, query="another question of the same caller")
    assert (refused.status_code, refused.json["code"]) == (429, "rate_limited")
    assert refused.json["details"]["limit"] == "embedded_tokens_per_day"
    another = world.post("/api/rag/ingest", key, source="notes", path="b.md", title="B", text="other words")
    assert (another.status_code, another.json["code"]) == (429, "rate_limited")
    assert world.embedded() == calls


def test_a_search_by_words_goes_on_without_tokens_and_says_so(world):
    free, key = world.key(), world.key(embedded_tokens_per_day=0)
    document = {"source": "notes", "path": "a.md", "title": "A", "text": "The gateway rotates its keys every night."}
    assert world.post("/api/rag/ingest", free, **document).status_code == 200
    answer = world.post("/api/search", key, query="gateway keys")
    assert answer.status_code == 200
    assert [hit["content"] for hit in answer.json["results"]] == ["The gateway rotates its keys every night."]
    assert "embedded tokens a day" in answer.text


def test_a_search_by_meaning_alone_is_refused_without_tokens_wherever_it_is_asked(world):
    key = world.key(embedded_tokens_per_day=0)
    document = {"source": "notes", "path": "a.md", "title": "A", "text": "The gateway rotates its keys every night."}
    assert world.post("/api/rag/ingest", world.key(), **document).status_code == 200
    asked = {"query": "gateway keys", "oracles": ["semantic"]}
    refused = [world.post("/api/search", key, **asked), world.post("/api/rag/search", key, query="gateway keys")]
    assert [(each.status_code, each.json["code"]) for each in refused] == [(429, "rate_limited")] * 2
    waits = [int(each.headers["Retry-After"]) for each in refused]
    assert abs(waits[0] - waits[1]) <= 60
    assert refused[0].json["details"]["limit"] == "embedded_tokens_per_day"
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rag_query", "arguments": asked}}
    result = world.post("/mcp", key, **call).json["result"]
    assert result["isError"]
    assert result["content"][0]["text"] == refused[0].json["message"]


def test_a_model_decides_on_topics_only_for_who_may_chat_and_as_often_as_they_may(topical_world):
    asked = {"userMessage": "How do tomatoes grow?", "conversationId": "c", "selectedCollections": []}

    def chats_for(scopes, times, **limits):
        grant = Grant(frozenset(map(Scope, scopes)), limits=Limits(**limits))
        text = topical_world.app.extensions["rag.access"].stored.create("asks", grant)[1]
        before = topical_world.chats()
        for _ in range(times):
            answer = topical_world.post("/api/collect", {"Authorization": f"Bearer {text}"}, **asked)
            assert answer.status_code == 200, answer.text
        return topical_world.chats() - before

    assert chats_for(["read"], 2) == 0
    assert chats_for(["read", "chat"], 2) == 2
    assert chats_for(["read", "chat"], 3, chats_per_day=1) == 1
