"""Conversations tell a key nothing of collections that are not its own any more, nor anything of documents to keys that
may not read."""

import pytest

from schemas.access.callers import Scope

SECRET = "The gateway's code is zebra."
OWN = ("rag-doc*",)


class Chatting:
    """Somebody with a key for the collection of the document."""

    def __init__(self, clocked, *scopes):
        self.clocked, self.client = clocked, clocked.app.test_client()
        self.key, text = clocked.key(*scopes)
        self.headers = {"Authorization": f"Bearer {text}"}
        self.change(*scopes)

    def change(self, *scopes, collections=OWN):
        self.clocked.change(self.key, *scopes, collections=collections)

    def chat(self, conversation_id, message, **more):
        body = {"message": message, "conversationId": conversation_id, **more}
        answer = self.client.post("/api/chat", json=body, headers=self.headers)
        assert answer.status_code == 200, answer.json
        return answer.json

    def read(self, name):
        return self.client.get(f"/api/chat/{name}", headers=self.headers)

    def delete(self, name):
        return self.client.delete(f"/api/chat/{name}", headers=self.headers)


@pytest.fixture(scope="module")
def documented(clocked, admin):
    """The service with a document in `rag-documents`."""
    document = {"source": "notes", "path": "a.md", "title": "Gateway", "text": SECRET}
    assert admin("POST", "/api/rag/ingest", document).status_code == 200
    return clocked


@pytest.mark.parametrize(
    ("scopes", "collections"), [(("read", "chat"), ("zz-*",)), (("chat",), OWN)], ids=["collections", "scopes"]
)
def test_a_narrowed_key_reads_no_texts_from_its_own_conversations(documented, admin, scopes, collections):
    ana, models = Chatting(documented, Scope.READ, Scope.CHAT), documented.models
    narrowed = [Scope(each) for each in scopes]
    asked = ana.chat("own1", "What is the gateway's code?", useRag=True, min_relevance=0)
    assert SECRET in str(asked["ragSources"])
    whole = ana.read("own1").json
    assert SECRET in str(whole)
    ana.change(*narrowed, collections=collections)
    assert (ana.read("own1").status_code, ana.read("own1").json["messages"]) == (200, [])
    models.requests.clear()
    ana.chat("own1", "And the door's?")
    [request] = [each for each in models.requests if each.path.endswith("/chat/completions")]
    assert [each["content"] for each in request.body["messages"]] == ["And the door's?"]
    assert [each["content"] for each in ana.read("own1").json["messages"]] == ["And the door's?", "So it is."]
    ana.change(Scope.CHAT, Scope.READ, collections=(*OWN, "zz-*"))
    assert ana.read("own1").json["messages"][:2] == whole["messages"]
    successor = admin("POST", f"/api/keys/{ana.key.id}/rotate", {}).json["key"]
    rotated = ana.client.get("/api/chat/own1", headers={"Authorization": f"Bearer {successor}"})
    assert len(rotated.json["messages"]) == 4
    ana.change(*narrowed, collections=collections)
    assert ana.delete("own1").status_code == 200
    assert ana.read("own1").status_code == 404


def test_a_key_that_may_not_read_gets_no_texts_from_what_others_share(documented):
    ana, bob = Chatting(documented, Scope.MANAGE, Scope.CHAT), Chatting(documented, Scope.CHAT)
    reader = Chatting(documented, Scope.READ, Scope.CHAT)
    ana.chat("ours1", "What is the gateway's code?", useRag=True, min_relevance=0, shared=True)
    assert SECRET in str(reader.read("ours1").json)
    refused = bob.read("ours1")
    assert (refused.status_code, refused.json["code"]) == (404, "conversation_not_found")
