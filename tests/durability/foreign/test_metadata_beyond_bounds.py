"""Documents of earlier releases may have more metadata than the engine can store; they break no collection's index."""

import pytest

from schemas.documents import parse_embedding
from schemas.records import DocumentBatch
from tests.durability.workload import documents
from tests.support.apps import running_app
from tests.support.live import eventually
from wrapper.catalog import writes
from wrapper.engine import encoding

BEYOND = {
    "fields": {f"k{number}": number for number in range(20_000)},
    "elements": {"list": list(range(12_000))},
    "lists": {f"list {number}": list(range(2_000)) for number in range(10)},
}


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """An app of its own whose queries ask the index, because these tests break its engine."""
    with running_app(tmp_path_factory.mktemp("app"), memory_vectors_mb=0, exact_ms=0, recall=0) as app:
        yield app


def _stored_by_an_earlier_release(app, name, given, metadata):
    """Store documents directly in the catalogue, past the checks of the routes."""
    vector = parse_embedding(given["embedding"]).reshape(1, -1)
    batch = DocumentBatch([given["id"]], [given["text"]], [metadata], vector)
    service = app.extensions["rag.service"]
    outcome = service.catalog.commit(lambda transaction: writes.add_documents(transaction, name, batch))
    service.store.writing.wait_until_indexed(outcome.outbox_id)


def _query(client, name, document):
    answer = client.post(f"/collections/{name}/query", json={"query_embedding": document["embedding"], "top_k": 1}).json
    return answer["results"][0]["id"], answer["plan"]


def _asks_the_index(client, name, document):
    return _query(client, name, document) == (document["id"], "index")


@pytest.mark.parametrize("kind", BEYOND)
def test_metadata_that_the_engine_cannot_hold_as_fields_is_still_in_the_index(app, client, filled, kind):
    given = documents(4, seed=1)
    name = filled(given[:3])
    _stored_by_an_earlier_release(app, name, given[3], BEYOND[kind])
    eventually(lambda: _asks_the_index(client, name, given[3]))
    shown = client.get(f"/collections/{name}/documents/{given[3]['id']}").json
    assert shown["metadata"] == BEYOND[kind]
    assert client.post(f"/collections/{name}/index/check").status_code == 202
    report = eventually(lambda: (now := client.get(f"/collections/{name}/index").json)["checked_at"] and now)
    assert (report["fault"], report["rebuilds"], report["set_aside"]["documents"]) == (None, 0, 0)


def test_a_collection_that_breaks_its_index_is_set_aside_while_the_others_are_asked(app, client, filled, monkeypatch):
    others = "others"
    good = documents(5, seed=2)
    assert client.post("/collections", json={"name": others}).status_code == 201
    assert client.post(f"/collections/{others}/documents", json={"documents": good}).status_code == 201
    given = documents(40, seed=3)
    name = filled(given[:20])
    # This engine bears less than the service believes.
    monkeypatch.setattr(encoding, "MOST_FIELDS", 10**9)
    bad = documents(1, seed=4)[0]
    _stored_by_an_earlier_release(app, name, bad, BEYOND["fields"])
    added = client.post(f"/collections/{name}/documents", json={"documents": given[20:]})
    assert added.status_code in (201, 202)
    eventually(lambda: _asks_the_index(client, name, given[30]))
    eventually(lambda: _asks_the_index(client, others, good[2]))
    assert _asks_the_index(client, name, bad)
    report = client.get(f"/collections/{name}/index").json
    assert [each["id"] for each in report["set_aside"]["first"]] == [bad["id"]]
    assert "breaks" in report["set_aside"]["first"][0]["reason"]
    eventually(lambda: client.get("/health").json["status"] == "healthy")
    assert client.get("/health").json["set_aside"]["documents"] == 1
    monkeypatch.undo()
    assert client.post(f"/collections/{name}/index/rebuild").status_code == 202
    eventually(lambda: client.get(f"/collections/{name}/index").json["set_aside"]["documents"] == 0)
    eventually(lambda: _asks_the_index(client, name, bad))
