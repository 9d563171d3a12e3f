"""A key whose rights have changed: a repeat of a write is judged by the rights of now, and told what it would be told
of a new write; conversations tell it nothing of collections that are not its own any more, nor of documents that it may
not read. A key may end or stay while a request is sent with it, and while that waits for its turn."""

import json
import re
import uuid
from dataclasses import replace

import pytest

from schemas.access.callers import Scope
from schemas.access.table import ROUTES
from tests.access.asking import RULE, TOOL, Request, request_to
from tests.access.faults import all_faults
from tests.interfaces.access.conftest import Asking, code_of, rows_of, sent
from tests.support.apps import HeldBody
from tests.support.contract import Contract

KEY = {"$ref": "#/components/parameters/IdempotencyKey"}
TEXT = "The door opens at nine."
DOCUMENT = {"id": "open", "text": "a", "embedding": [1.0, 0.0]}
NAMED = {
    "POST /collections": {"name": "{}-new"},
    "PATCH /collections/{name}": {"name": "{}-renamed"},
    "POST /collections/{name}/copy": {"name": "{}-copy"},
    "POST /api/rag/documents:batch": {"collection": "{}-rules", "documents": [RULE]},
    "POST /tools/{tool}": {"content": TEXT},
}
"""What requests have in place of the bodies of tests/access/asking, with the name of a collection for `{}`."""


def made_collection(client, headers):
    """Make a collection with a document and an alias, and return its name."""
    name = f"docs-{uuid.uuid4()}"
    client.post("/collections", json={"name": name}, headers=headers)
    stored = client.post(f"/collections/{name}/documents", json={"documents": [DOCUMENT]}, headers=headers)
    assert stored.status_code == 202
    assert client.put(f"/aliases/{name}-alias", json={"collection": name}, headers=headers).status_code == 200
    return name


def repeatable(route, name):
    """Return a request to a route that takes an `Idempotency-Key`, about this collection."""
    request = request_to(route.replace("{id}", "{document_id}"), name, "open")
    path = request.path.replace("mine-alias", f"{name}-alias").replace(TOOL, "rag_context_index")
    body = {each: text.format(name) if "{}" in text else text for each, text in NAMED.get(route, {}).items()}
    return replace(request, path=path, body=body or request.body)


def taking_keys():
    """Return the routes that take an `Idempotency-Key`."""
    contract = Contract.load()
    for path, method in sorted(contract.described()):
        item = contract.document["paths"][path]
        if KEY in [*item.get("parameters", []), *item[method.lower()].get("parameters", [])]:
            yield f"{method} {path}"


@pytest.mark.slow
def test_a_key_for_other_collections_by_now_is_refused_as_for_a_new_write(clocked):
    routes = [*taking_keys()]
    assert len(routes) == 20
    with all_faults() as case:
        for route in routes:
            with case(route):
                _check_replay(clocked, route)


def _check_replay(clocked, route):
    asking = Asking(clocked, Scope.MANAGE)
    name = made_collection(asking.client, asking.headers)

    def send(repeated):
        """Return (status, code of the error if any, whether it is a replay)."""
        answer = sent(asking.client, repeatable(route, name), {**asking.headers, "Idempotency-Key": repeated})
        code = answer.json["code"] if answer.status_code >= 400 else None
        return answer.status_code, code, answer.headers.get("Idempotent-Replayed") == "true"

    assert send("once")[0] < 300
    assert [send("once")[2], send("another")[2]] == [True, False]
    clocked.change(asking.key, Scope.MANAGE, collections=("elsewhere-*",))
    again = send("once")
    assert again == send("a third")
    assert again in [
        (403, "collection_forbidden", False),
        (404, "collection_not_found", False),
        (404, "alias_not_found", False),
    ]


@pytest.mark.parametrize("scopes", [(Scope.READ, Scope.CHAT), (Scope.CHAT,)], ids=["collections", "scopes"])
def test_a_narrowed_key_reads_no_texts_from_its_own_conversations(clocked, admin, scopes):
    asking, models = Asking(clocked, Scope.READ, Scope.CHAT), clocked.models
    collections = ("zz-*",) if Scope.READ in scopes else None

    def messages():
        return asking.client.get("/api/chat/own", headers=asking.headers).json["messages"]

    asked = {"message": "When does the vault open?", "conversationId": "own", "useRag": True, "min_relevance": 0}
    assert "The vault opens" in str(asking.post("/api/chat", asked).json["ragSources"])
    whole = messages()
    assert "The vault opens" in str(whole)
    clocked.change(asking.key, *scopes, collections=collections)
    assert messages() == []
    models.requests.clear()
    assert asking.post("/api/chat", {"message": "And the door?", "conversationId": "own"}).status_code == 200
    [request] = [each for each in models.requests if each.path.endswith("/chat/completions")]
    assert [each["content"] for each in request.body["messages"]] == ["And the door?"]
    assert [each["content"] for each in messages()] == ["And the door?", "So it is."]
    clocked.change(asking.key, Scope.READ, Scope.CHAT)
    assert messages()[:2] == whole


UNREAD = re.compile("/index/|/cancel$|/backups$|/reset$|/v1/files$")
"""Routes that take no body, or another kind of one."""
CALLED = {"name": "session_start", "arguments": {"name": "another"}}
PARTS = b'--X\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n# Vault\r\n--X--\r\n'
SENT = [
    (Scope.WRITE, Request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALLED})),
    (Scope.WRITE, Request("POST", "/tools/rag_context_index", {"content": TEXT})),
    (Scope.WRITE, Request("POST", "/api/documents", PARTS, {"Content_Type": "multipart/form-data; boundary=X"})),
    *((row.needs, request_to(route, "docs")) for route, row in ROUTES.items() if isinstance(row.needs, Scope)),
]
SENT = [each for each in SENT if each[1].body is not None and not UNREAD.search(each[1].path)]
TABLES = ("api_keys", "connections", "collections", "documents", "note_sessions", "jobs", "chat_messages")


def held_back(asking, request, then):
    """Return the answer to a request whose last byte comes after `then`."""
    content = request.body if isinstance(request.body, bytes) else json.dumps(request.body).encode()
    kind = {"CONTENT_TYPE": request.headers.get("Content_Type", "application/json")}  # a client would choose a boundary
    return asking.client.open(
        request.path,
        method=request.method,
        environ_overrides=HeldBody([content[:-1], content[-1:]], then).environ | kind,
        headers={"X-Filename": "a.md", **asking.headers},
    )


def state(clocked):
    """Return the rows that the requests add or change."""
    return {name: rows_of(clocked.app, f"SELECT * FROM {name}") for name in TABLES}


@pytest.mark.parametrize(("how", "first"), [("revoked", 0), ("other scopes", 1)])
def test_a_request_is_refused_whose_key_ends_while_it_is_sent(clocked, admin, how, first):
    with all_faults() as case:
        for scope, request in SENT[first::2]:
            with case(request):
                asking, before = Asking(clocked, scope), {}
                answer = held_back(asking, request, lambda a=asking, b=before: (a.end(how), b.update(state(clocked))))
                status = 403 if request.path.startswith("/dify/") else 401
                assert (answer.status_code, answer.json["code"]) == (status, code_of(how))
                assert "vault" not in answer.text
                assert state(clocked) == before


def test_a_request_is_carried_out_whose_key_stays_while_it_is_sent(clocked, admin):
    for scope, request in SENT[:3]:
        asking = Asking(clocked, scope)
        assert (got := held_back(asking, request, asking.stay)).status_code in (200, 202), got.text


def test_a_request_whose_key_ends_while_it_waits_for_its_turn_is_refused(clocked, reading, monkeypatch):
    lanes = clocked.app.extensions["rag.lanes"]
    enter = lanes.enter
    monkeypatch.setattr(lanes, "enter", lambda *asked: (reading.end(), enter(*asked))[1])
    answer = reading.client.get("/collections/docs/documents", headers=reading.headers)
    assert (answer.status_code, answer.json["code"]) == (401, "key_revoked")


def test_what_administrators_alone_write_is_refused_at_once_when_their_key_has_ended(clocked):
    asking, app = Asking(clocked, Scope.ADMIN), clocked.app
    assert asking.client.get("/api/keys", headers=asking.headers).status_code == 200
    app.extensions["rag.access"].stored.revoke(asking.key.id)
    assert asking.client.get("/api/me", headers=asking.headers).status_code == 200  # as far as this process knows
    for route, access in ROUTES.items():
        method, path = route.split(" ")
        if access.is_administration and method != "GET":
            answer = asking.client.open(re.sub("{.*?}", "x", path), method=method, headers=asking.headers)
            assert (route, answer.status_code, answer.json["code"]) == (route, 401, "key_revoked")
