"""A key may end or stay while a request is sent with it, and while that waits for its turn."""

import json

from schemas.access.callers import Scope
from tests.access.faults import all_faults
from tests.interfaces.access.asking import DOCUMENT, Asking, code_of
from tests.support.apps import HeldBody

PARTS = b'--X\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n# Vault\r\n--X--\r\n'
CALLED = {"name": "session_start", "arguments": {"name": "another"}}
SENT = {
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
    "POST /mcp": (Scope.WRITE, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALLED}),
    "POST /api/documents?collection=docs multipart": (Scope.WRITE, PARTS),
    "POST /api/documents?collection=docs plain": (Scope.WRITE, b"# Vault"),
}
MEDIA_TYPES = {"multipart": "multipart/form-data; boundary=X", "plain": "text/markdown"}
TABLES = ("api_keys", "connections", "collections", "documents", "note_sessions", "jobs", "chat_messages")


def sent(asking, route, body, then):
    """Return the answer to a request whose last byte comes after `then`."""
    method, path, *kind = route.replace("{key}", asking.key.id).split(" ")
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return asking.client.open(
        path,
        method=method,
        environ_overrides=HeldBody([content[:-1], content[-1:]], then).environ,
        content_type=MEDIA_TYPES[kind[0]] if kind else "application/json",
        headers={"X-Filename": "a.md", **asking.headers},
    )


def state(clocked):
    """Return the rows that the requests add or change."""
    with clocked.app.extensions["rag.service"].catalog.read() as transaction:
        return {name: transaction.rows(f"SELECT * FROM {name}") for name in TABLES}


def test_a_request_whose_key_ends_while_it_is_sent_is_refused(clocked, admin):
    with all_faults() as case:
        for route, (scope, body) in SENT.items():
            for how in ("revoked", "other scopes"):
                with case(route, how):
                    asking, before = Asking(clocked, scope), {}
                    answer = sent(
                        asking, route, body, lambda a=asking, h=how, b=before: (a.end(h), b.update(state(clocked)))
                    )
                    assert (answer.status_code, answer.json["code"]) == (401, code_of(how))
                    assert "vault" not in answer.text
                    assert state(clocked) == before


def test_a_request_whose_key_stays_is_carried_out(clocked, admin):
    with all_faults() as case:
        for route, (scope, body) in SENT.items():
            with case(route):
                asking = Asking(clocked, scope)
                if route != "POST /api/erase":  # which needs an engine
                    assert sent(asking, route, body, asking.stay).status_code != 401


def test_a_request_whose_key_ends_while_it_waits_for_its_turn_is_refused(clocked, reading, monkeypatch):
    lanes = clocked.app.extensions["rag.lanes"]
    enter = lanes.enter
    monkeypatch.setattr(lanes, "enter", lambda *asked: (reading.end(), enter(*asked))[1])
    answer = reading.client.get("/collections/docs/documents", headers=reading.headers)
    assert (answer.status_code, answer.json["code"]) == (401, "key_revoked")
