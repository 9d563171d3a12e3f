"""A repeat of a write is judged by the rights of now: a key that may not write there any more is told what it would be
told of a new write."""

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


@pytest.mark.slow
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
