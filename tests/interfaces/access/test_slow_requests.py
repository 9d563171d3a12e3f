"""Whoever holds a request open goes on with the rights of now: their key may end while they send it, while it waits for
its turn, and while it is answered."""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import suppress

import pytest
from flask.testing import FlaskClient

from registry.topics.conversations import Conversations
from schemas.access.callers import Scope, acting_as
from schemas.contracts.collect import CollectRequest
from schemas.errors import UnauthorizedError
from tests.support.apps import HeldBody
from tests.support.model_server import as_events, chat_answer, openai_answer
from wrapper.web.callers import PART_BYTES, AnswerBrokenOffError

DOCUMENT = {"id": "a", "text": "The vault opens at nine.", "embedding": [1.0, 0.0]}
PARTS = b'--X\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n# Vault\r\n--X--\r\n'
REQUESTS = {
    "POST /api/keys": (Scope.ADMIN, {"name": "another", "scopes": ["admin"]}),
    "PATCH /api/keys/{key}": (Scope.ADMIN, {"limits": {"concurrent": 5}}),
    "POST /api/keys/{key}/rotate": (Scope.ADMIN, {"grace_seconds": 60}),
    "POST /api/erase": (Scope.ADMIN, {"collection": "docs", "document": "a"}),
    "POST /api/connections": (Scope.CONNECT, {"type": "rag", "provider": "local", "config": {}}),
    "POST /api/connections/llm/test": (Scope.CONNECT, {"provider": "local", "config": {}}),
    "POST /collections": (Scope.MANAGE, {"name": "another"}),
    "POST /collections/docs/documents": (Scope.WRITE, {"documents": [{**DOCUMENT, "id": "b"}]}),
    "POST /collections/docs/documents/search": (Scope.READ, {}),
    "POST /collections/docs/query": (Scope.READ, {"query_embedding": [1.0, 0.0]}),
    "POST /collections/docs/text-search": (Scope.READ, {"query": "vault"}),
    "POST /api/search": (Scope.READ, {"query": "vault", "oracles": ["lexical"], "collections": ["docs"]}),
    "POST /api/rag/ingest": (Scope.WRITE, {"text": "New.", "title": "New", "source": "s", "path": "p"}),
    "POST /api/chat": (Scope.CHAT, {"message": "When does the vault open?"}),
    "POST /tools/session_start": (Scope.WRITE, {"name": "another"}),
    "POST /mcp": (
        Scope.WRITE,
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "session_start", "arguments": {"name": "another"}},
        },
    ),
    "POST /api/documents?collection=docs multipart": (Scope.WRITE, PARTS),
    "POST /api/documents?collection=docs plain": (Scope.WRITE, b"# Vault"),
}
TABLES = ("api_keys", "connections", "collections", "documents", "note_sessions", "jobs", "chat_messages")
MEDIA_TYPES = {"multipart": "multipart/form-data; boundary=X", "plain": "text/markdown"}


@pytest.fixture
def asking(clocked):
    """`asking(route, body, headers, then)`: the answer to a request whose last byte comes after `then`."""
    client = clocked.app.test_client()

    def ask(route, body, headers, then):
        method, path, *kind = route.split(" ")
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return client.open(
            path,
            method=method,
            environ_overrides=HeldBody([content[:-1], content[-1:]], then).environ,
            content_type=MEDIA_TYPES[kind[0]] if kind else "application/json",
            headers={"X-Filename": "a.md", **headers},
        )

    return ask


@pytest.fixture
def admin(clocked):
    """`admin(method, path, body)`: the answer to an administrator."""
    client = clocked.app.test_client()
    headers = {"Authorization": f"Bearer {clocked.key(Scope.ADMIN)[1]}"}
    ask = lambda method, path, body=None: client.open(path, method=method, json=body, headers=headers)  # noqa: E731
    if ask("GET", "/collections/docs").status_code == 404:
        assert ask("POST", "/collections", {"name": "docs"}).status_code == 201
        assert ask("POST", "/collections/docs/documents", {"documents": [DOCUMENT]}).status_code == 202
        text = {"text": DOCUMENT["text"], "title": "Vault", "source": "house", "path": "vault"}
        assert ask("POST", "/api/rag/ingest", text).status_code == 200
    return ask


def state(clocked):
    """Return the rows that the requests add or change."""
    with clocked.app.extensions["rag.service"].catalog.read() as transaction:
        return {name: transaction.rows(f"SELECT * FROM {name}") for name in TABLES}


@pytest.mark.parametrize("how", ["revoked", "changed"])
@pytest.mark.parametrize("route", REQUESTS)
def test_a_request_whose_key_ends_while_it_is_sent_is_refused(clocked, admin, asking, route, how):
    scope, body = REQUESTS[route]
    key, text = clocked.key(scope)
    path = route.replace("{key}", key.id)
    before = {}

    def end():
        if how == "revoked":
            clocked.revoke(key)
        else:
            clocked.change(key, Scope.CHAT if scope is Scope.READ else Scope.READ)
        before.update(state(clocked))

    answer = asking(path, body, {"Authorization": f"Bearer {text}"}, end)
    assert (answer.status_code, answer.json["code"]) == (401, "key_revoked" if how == "revoked" else "key_unknown")
    assert "vault" not in answer.text
    assert state(clocked) == before


@pytest.mark.parametrize("route", [each for each in REQUESTS if each != "POST /api/erase"])  # which needs an engine
def test_a_request_whose_key_stays_is_carried_out(clocked, admin, asking, route):
    scope, body = REQUESTS[route]
    key, text = clocked.key(scope)
    answer = asking(route.replace("{key}", key.id), body, {"Authorization": f"Bearer {text}"}, lambda: None)
    assert answer.status_code != 401, answer.text


def test_a_request_whose_key_ends_while_it_waits_for_its_turn_is_refused(clocked, admin, monkeypatch):
    key, text = clocked.key(Scope.READ)
    lanes = clocked.app.extensions["rag.lanes"]
    enter = lanes.enter
    monkeypatch.setattr(lanes, "enter", lambda *asked: (clocked.revoke(key), enter(*asked))[1])
    headers = {"Authorization": f"Bearer {text}"}
    answer = clocked.app.test_client().get("/collections/docs/documents", headers=headers)
    assert (answer.status_code, answer.json["code"]) == (401, "key_revoked")


@pytest.mark.parametrize(
    ("scope", "path", "body"),
    [
        (Scope.READ, "/api/search", {"query": "QUESTION", "oracles": ["semantic"], "collections": ["docs"]}),
        (Scope.READ, "/tools/rag_context_search", {"query": "QUESTION"}),
        (Scope.CHAT, "/api/chat", {"message": "QUESTION", "conversationId": "held"}),
    ],
)
def test_an_answer_that_takes_long_is_not_given_to_a_key_that_ended_meanwhile(clocked, admin, scope, path, body):
    key, text = clocked.key(scope)
    question = uuid.uuid4().hex

    def answer(asked):
        clocked.revoke(key)
        return openai_answer(asked) if "input" in asked else chat_answer(asked)

    clocked.models.script.append(answer)
    body = {name: question if value == "QUESTION" else value for name, value in body.items()}
    given = clocked.app.test_client().post(path, json=body, headers={"Authorization": f"Bearer {text}"})
    assert not clocked.models.script, "the model was not asked"
    assert (given.status_code, given.json["code"]) == (401, "key_revoked")
    assert given.headers["WWW-Authenticate"].startswith("Bearer")
    assert "So it is." not in given.text
    assert admin("GET", f"/api/chat/held?owner=key:{key.id}").status_code == 404


def test_a_topic_is_not_kept_for_a_key_that_ended_while_a_model_decided_on_it(clocked):
    key, text = clocked.key(Scope.READ, Scope.CHAT)
    service = clocked.app.extensions["rag.service"]
    access = clocked.app.extensions["rag.access"]
    caller = access.caller_with(text)

    class Slow:
        def next_topic(self, topic, message):
            clocked.revoke(key)
            return "vaults"

    kept = Conversations(service.catalog, Slow)
    with acting_as(caller, lambda: access.still(caller)), pytest.raises(UnauthorizedError):
        kept.follow("held", CollectRequest("vaults?", "", "", ()), owner=caller.owner)
    with service.catalog.read() as transaction:
        assert transaction.rows("SELECT id FROM conversation_topics WHERE owner = ?", (caller.owner,)) == []


@pytest.mark.parametrize("stream", [False, True])
def test_no_model_is_told_of_documents_for_a_key_that_ended_while_the_question_was_embedded(clocked, admin, stream):
    key, text = clocked.key(Scope.READ, Scope.CHAT)

    def answer(body):
        clocked.revoke(key)
        return openai_answer(body)

    clocked.models.script.append(answer)
    clocked.models.requests.clear()
    headers = {"Authorization": f"Bearer {text}"}
    body = {"message": uuid.uuid4().hex, "useRag": True, "stream": stream}
    with suppress(AnswerBrokenOffError):
        assert clocked.app.test_client().post("/api/chat", json=body, headers=headers).status_code == 401
    asked = [each.path for each in clocked.models.requests]
    assert "/v1/embeddings" in asked
    assert "/v1/chat/completions" not in asked


@pytest.mark.parametrize("says", ["nothing", "a word"])
def test_a_streamed_chat_ends_with_its_key_while_the_model_is_silent(clocked, says):
    key, text = clocked.key(Scope.CHAT)
    words = [{"choices": [{"delta": {"content": "So"}}]}] if says == "a word" else []
    silent = as_events(*words, hung_up=threading.Event())
    silent.headers["Content-Length"] = "1000000"

    def answer(body):
        if says == "nothing":
            clocked.revoke(key)
        return silent

    clocked.models.script.append(answer)
    body, headers = {"message": "And?", "stream": True}, {"Authorization": f"Bearer {text}"}
    given = FlaskClient(clocked.app).post("/api/chat", json=body, headers=headers)
    if says == "nothing":
        assert (given.status_code, given.json["code"]) == (401, "key_revoked")
    else:
        parts = iter(given.response)
        assert b"So" in next(parts)
        clocked.revoke(key)
        with pytest.raises(AnswerBrokenOffError):
            next(parts)
        given.close()
    assert silent.hung_up.wait(20)


def test_no_reranking_model_is_told_of_documents_for_a_key_that_ended_while_the_question_was_embedded(clocked, admin):
    key, text = clocked.key(Scope.READ)
    config = {"url": f"{clocked.models.url}/v1", "model": "ranking"}
    connection = {"id": "ranks", "type": "rerank", "provider": "cohere", "config": config, "shared": True}
    assert admin("POST", "/api/connections", connection).status_code == 201

    def answer(body):
        clocked.revoke(key)
        return openai_answer(body)

    def search(then=None):
        clocked.models.requests.clear()
        clocked.models.script += [] if then is None else [then]
        body = {"query": f"vault {uuid.uuid4().hex}", "collections": ["docs"], "rerank": "ranks", "min_relevance": 0}
        given = clocked.app.test_client().post("/api/search", json=body, headers={"Authorization": f"Bearer {text}"})
        return given.status_code, [each.path for each in clocked.models.requests]

    assert search() == (200, ["/v1/embeddings", "/v1/rerank"])
    assert search(answer) == (401, ["/v1/embeddings"])
    assert admin("DELETE", "/api/connections/ranks").status_code == 200


def test_no_question_is_embedded_for_a_key_that_has_ended(clocked):
    key, text = clocked.key(Scope.READ)
    access, embeddings = clocked.app.extensions["rag.access"], clocked.app.extensions["rag.layers"].embeddings
    caller = access.caller_with(text)
    clocked.models.requests.clear()
    with acting_as(caller, lambda: access.still(caller)):
        embeddings.embed("default", uuid.uuid4().hex)
        clocked.revoke(key)
        with pytest.raises(UnauthorizedError):
            embeddings.embed("default", uuid.uuid4().hex)
    assert len(clocked.models.requests) == 1


def test_a_large_answer_is_not_given_to_its_end_to_a_key_that_ended_meanwhile(clocked, admin):
    key, text = clocked.key(Scope.READ)
    large = {"id": "large", "text": "word " * (PART_BYTES // 4), "embedding": [1.0, 0.0]}
    assert admin("POST", "/collections/docs/documents", {"documents": [large]}).status_code == 202
    client = FlaskClient(clocked.app)
    headers = {"Authorization": f"Bearer {text}"}
    whole = client.get("/collections/docs/documents/large", headers=headers)
    assert int(whole.headers["Content-Length"]) == len(whole.data) > PART_BYTES
    parts = iter(client.get("/collections/docs/documents/large", headers=headers).response)
    assert len(next(parts)) == PART_BYTES
    clocked.revoke(key)
    with pytest.raises(AnswerBrokenOffError):
        next(parts)
    assert admin("DELETE", "/collections/docs/documents", {"ids": ["large"]}).status_code in (200, 202)


def test_the_large_answer_to_a_change_is_given_to_its_end(clocked, admin):
    key, text = clocked.key(Scope.WRITE)
    large = {"id": "large", "text": "word " * (PART_BYTES // 4), "embedding": [1.0, 0.0]}
    assert admin("POST", "/collections/docs/documents", {"documents": [large]}).status_code == 202
    changed = FlaskClient(clocked.app).patch(
        "/collections/docs/documents/large", json={"metadata": {"n": 1}}, headers={"Authorization": f"Bearer {text}"}
    )
    clocked.revoke(key)
    whole = b"".join(changed.response)
    assert int(changed.headers["Content-Length"]) == len(whole) > PART_BYTES
    assert (changed.status_code, json.loads(whole)["metadata"]) == (202, {"n": 1})
    assert admin("DELETE", "/collections/docs/documents", {"ids": ["large"]}).status_code in (200, 202)
