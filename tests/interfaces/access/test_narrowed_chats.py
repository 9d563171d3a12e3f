"""Conversations tell a key nothing of collections that are not its own any more, nor anything of documents to keys that
may not read."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from schemas.settings import RetrievalSettings
from tests.interfaces.access.conftest import app_with_keys
from tests.support.apps import models_of
from tests.support.live import eventually

ADMIN = {"X-API-Key": "the-key-of-an-administrator"}
SECRET = "The gateway's code is zebra."
OWN = ["rag-doc*"]


@pytest.fixture(scope="module")
def app(tmp_path_factory, models):
    """A service with keys, a chat model, and a document in `rag-documents`."""
    folder, settings = tmp_path_factory.mktemp("narrowed"), RetrievalSettings()
    with app_with_keys(folder, models_of(models), settings, api_key=ADMIN["X-API-Key"]) as app:
        document = {"source": "notes", "path": "a.md", "title": "Gateway", "text": SECRET}
        assert app.test_client().post("/api/rag/ingest", json=document, headers=ADMIN).status_code == 200
        yield app


@pytest.fixture
def key(app):
    """`key(*scopes)`: a new key for the collection of the document."""
    client = app.test_client()

    def make(*scopes):
        made = client.post("/api/keys", json={"name": "k", "scopes": scopes, "collections": OWN}, headers=ADMIN).json
        headers = {"Authorization": f"Bearer {made['key']}"}

        def change(**rights):
            assert client.patch(f"/api/keys/{made['id']}", json=rights, headers=ADMIN).status_code == 200

            def is_known():
                answer = client.get("/api/me", headers=headers)
                if answer.status_code == 401:  # the service learnt of the change while it answered
                    return False
                me = answer.json
                return all(sorted(me[name]) == sorted(names) for name, names in rights.items())

            eventually(is_known)

        def chat(conversation_id, message, **more):
            body = {"message": message, "conversationId": conversation_id, **more}
            answer = client.post("/api/chat", json=body, headers=headers)
            assert answer.status_code == 200, answer.json
            return answer.json

        def rotated():
            successor = client.post(f"/api/keys/{made['id']}/rotate", headers=ADMIN, json={}).json["key"]
            return client.get("/api/chat/own1", headers={"Authorization": f"Bearer {successor}"}).json

        return SimpleNamespace(
            change=change,
            chat=chat,
            rotated=rotated,
            read=lambda name: client.get(f"/api/chat/{name}", headers=headers),
            delete=lambda name: client.delete(f"/api/chat/{name}", headers=headers),
        )

    return make


@pytest.mark.parametrize(
    "narrowed", [{"collections": ["zz-*"]}, {"scopes": ["chat"]}], ids=lambda narrowed: next(iter(narrowed))
)
def test_a_narrowed_key_reads_no_texts_from_its_own_conversations(key, models_up, narrowed):
    ana = key("read", "chat")
    asked = ana.chat("own1", "What is the gateway's code?", useRag=True, min_relevance=0)
    assert SECRET in str(asked["ragSources"])
    whole = ana.read("own1").json
    assert SECRET in str(whole)
    ana.change(**narrowed)
    assert (ana.read("own1").status_code, ana.read("own1").json["messages"]) == (200, [])
    models_up.requests.clear()
    ana.chat("own1", "And the door's?")
    [request] = [each for each in models_up.requests if each.path.endswith("/chat/completions")]
    assert [each["content"] for each in request.body["messages"]] == ["And the door's?"]
    assert [each["content"] for each in ana.read("own1").json["messages"]] == ["And the door's?", "So it is."]
    ana.change(collections=[*OWN, "zz-*"], scopes=["chat", "read"])
    assert ana.read("own1").json["messages"][:2] == whole["messages"]
    assert len(ana.rotated()["messages"]) == 4
    ana.change(**narrowed)
    assert ana.delete("own1").status_code == 200
    assert ana.read("own1").status_code == 404


def test_a_key_that_may_not_read_gets_no_texts_from_what_others_share(key, models_up):
    ana, bob, reader = key("manage", "chat"), key("chat"), key("read", "chat")
    ana.chat("ours1", "What is the gateway's code?", useRag=True, min_relevance=0, shared=True)
    assert SECRET in str(reader.read("ours1").json)
    refused = bob.read("ours1")
    assert (refused.status_code, refused.json["code"]) == (404, "conversation_not_found")
