"""Documents of earlier releases may have more metadata than the engine can store; they break no collection's index."""

import pytest

from schemas.documents import parse_embedding
from schemas.records import DocumentBatch
from tests.durability.workload import documents
from tests.support.apps import running_app
from tests.support.live import eventually
from wrapper.catalog import writes
from wrapper.engine import encoding

BEYOND = {f"k{number}": number for number in range(20_000)}


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
    _stored_by_an_earlier_release(app, name, bad, BEYOND)
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
