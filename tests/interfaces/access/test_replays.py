"""A key whose rights have changed: a repeat of a write is judged by the rights of now, and told what it would be told of a
new write; conversations tell it nothing of collections that are not its own any more, nor of documents that it may not
read."""

import io
import uuid

import orjson
import pytest

from schemas.access.callers import Scope
from tests.access.faults import all_faults
from tests.support.contract import Contract

KEY = {"$ref": "#/components/parameters/IdempotencyKey"}
TEXT = "The door opens at nine."
DOCUMENT = {"id": "a", "text": "a", "embedding": [1.0, 0.0]}
INGESTED = {"text": TEXT, "title": "Doors", "source": "house", "path": "doors.txt", "hash": "1", "tags": []}
RULE = {
    "filename": "a.md",
    "content": f"# A\n\n{TEXT}",
    "metadata": {"source": "house", "doc_type": "ops", "last_update_date": "2026-01-31"},
}
LINES = {"data": orjson.dumps(DOCUMENT), "content_type": "application/x-ndjson"}
REQUESTS = {
    "POST /collections": {"json": {"name": "NAME-new"}},
    "DELETE /collections/{name}": {},
    "PATCH /collections/{name}": {"json": {"name": "NAME-renamed"}},
    "POST /collections/{name}/copy": {"json": {"name": "NAME-copy"}},
    "PUT /aliases/{alias}": {"json": {"collection": "NAME"}},
    "DELETE /aliases/{alias}": {},
    "PUT /collections/{name}/metadata": {"json": {"metadata": {"a": 1}}},
    "PATCH /collections/{name}/metadata": {"json": {"metadata": {"a": 1}}},
    "POST /collections/{name}/documents": {"json": {"documents": [DOCUMENT]}},
    "DELETE /collections/{name}/documents": {"json": {"ids": ["old"]}},
    "DELETE /collections/{name}/documents/all": {},
    "PATCH /collections/{name}/documents": {"json": {"ids": ["old"], "metadata": {"a": 1}}},
    "PUT /collections/{name}/documents/{id}": {"json": {"text": "a", "embedding": [1.0, 0.0]}},
    "PATCH /collections/{name}/documents/{id}": {"json": {"metadata": {"a": 1}}},
    "DELETE /collections/{name}/documents/{id}": {},
    "POST /collections/{name}/import": LINES,
    "POST /api/rag/ingest": {"json": INGESTED},
    "POST /api/rag/documents:batch": {"json": {"collection": "NAME-rules", "documents": [RULE]}},
    "POST /api/documents": {"data": {}},
    "POST /tools/{tool}": {"json": {"content": TEXT}},
}
"""A request of each route that takes an `Idempotency-Key`."""


def made_collection(client, key_text):
    """Make a collection with a document and an alias, and return its name."""
    name, headers = f"docs-{uuid.uuid4()}", {"Authorization": f"Bearer {key_text}"}
    client.post("/collections", json={"name": name}, headers=headers)
    old = {"documents": [{**DOCUMENT, "id": "old"}]}
    assert client.post(f"/collections/{name}/documents", json=old, headers=headers).status_code == 202
    alias = {"collection": name}
    assert client.put(f"/aliases/{name}-alias", json=alias, headers=headers).status_code == 200
    return name


def sent(client, route, request, name, key_text, repeated):
    """Return (status, code of the error if any, whether it is a replay)."""
    method, _, path = route.partition(" ")
    for part, text in (("name", name), ("alias", f"{name}-alias"), ("id", "old"), ("tool", "rag_context_index")):
        path = path.replace(f"{{{part}}}", text)
    content = dict(request)
    if "json" in content:
        content["json"] = orjson.loads(orjson.dumps(content["json"]).replace(b"NAME", name.encode()))
    elif isinstance(content.get("data"), dict):
        content["data"] = {"collection": name, "file": (io.BytesIO(TEXT.encode()), "a.txt")}
    headers = {"Authorization": f"Bearer {key_text}", "Idempotency-Key": repeated}
    answer = client.open(path, method=method, headers=headers, **content)
    code = answer.json["code"] if answer.status_code >= 400 else None
    return answer.status_code, code, answer.headers.get("Idempotent-Replayed") == "true"


def test_these_are_the_routes_that_take_an_idempotency_key():
    contract = Contract.load()
    taking = set()
    for path, method in contract.described():
        item = contract.document["paths"][path]
        if KEY in [*item.get("parameters", []), *item[method.lower()].get("parameters", [])]:
            taking.add(f"{method} {path}")
    assert taking == set(REQUESTS)


def test_a_key_for_other_collections_by_now_is_refused_as_for_a_new_write(clocked):
    with all_faults() as case:
        for route, request in (*REQUESTS.items(), ("POST /collections/{name}/documents", LINES)):
            with case(route, *request):
                _check_replay(clocked, route, request)


def _check_replay(clocked, route, request):
    key, text = clocked.key(Scope.MANAGE)
    client = clocked.app.test_client()
    name = made_collection(client, text)

    def send(repeated):
        return sent(client, route, request, name, text, repeated)

    assert send("once")[0] < 300
    assert [send("once")[2], send("another")[2]] == [True, False]
    clocked.change(key, Scope.MANAGE, collections=("elsewhere-*",))
    again = send("once")
    assert again == send("a third")
    assert again in [
        (403, "collection_forbidden", False),
        (404, "collection_not_found", False),
        (404, "alias_not_found", False),
    ]


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
