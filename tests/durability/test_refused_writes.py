"""A refused write has not happened, whatever refused it."""

import uuid

from schemas.documents import parse_document, to_batch
from tests.durability.workload import documents
from wrapper import writing
from wrapper.catalog import writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.names import collection_writes
from wrapper.catalog.sqlite.database import SQLiteDatabase

RULE = {"source": "rules", "doc_type": "faq", "last_update_date": "2026-01-31"}
TEXTS = {
    "/api/rag/ingest": {"source": "a", "path": "/b", "title": "c", "text": "A text."},
    "/api/rag/documents:batch": {"documents": [{"filename": "a.md", "content": "A text.", "metadata": RULE}]},
    "/tools/rag_context_index": {"content": "A text.", "source": "a", "sessionId": "s", "contentType": "chat"},
}


def test_below_the_disk_floor_nothing_is_stored_and_reads_go_on(serve, tmp_path):
    given = documents(10, seed=1)
    (tmp_path / "data").mkdir()
    catalog = Catalog(SQLiteDatabase(tmp_path / "data" / "catalog.sqlite"))
    catalog.open()
    catalog.commit(lambda transaction: collection_writes.create_collection(transaction, "kept", {}, "cosine"))
    batch = to_batch([parse_document(each, None, uuid.uuid4) for each in given])
    catalog.commit(lambda transaction: writes.add_documents(transaction, "kept", batch))
    catalog.close()
    full = serve(disk_floor_mb=1_000_000_000)
    base = f"{full.url}/collections/kept"
    with full.session() as session:
        before = session.get(base, timeout=15).json()
        body = {"documents": documents(3, seed=2)}
        refused = [
            session.post(f"{base}/documents", json=body, timeout=15),
            session.post(f"{full.url}/collections", json={"name": "another"}, timeout=15),
            session.patch(f"{base}/documents/{given[0]['id']}", json={"text": "changed"}, timeout=15),
            session.put(f"{base}/metadata", json={"metadata": {"a": 1}}, timeout=15),
            *(session.post(full.url + path, json=body, timeout=30) for path, body in TEXTS.items()),
        ]
        assert [answer.status_code for answer in refused] == [507] * 7
        assert {answer.json()["code"] for answer in refused} == {"disk_floor_reached"}
        assert session.get(base, timeout=15).json() == before
        query = {"query_embedding": given[0]["embedding"], "top_k": 1}
        found = session.post(f"{base}/query", json=query, timeout=15).json()["results"]
        assert [(each["id"], each["text"]) for each in found] == [(given[0]["id"], given[0]["text"])]


def test_nothing_is_stored_beyond_the_allowed_lag(client, filled, unchanged, monkeypatch):
    name = filled(documents(3, seed=1))
    monkeypatch.setattr(writing, "MAX_LAG", 0)
    with unchanged(name):
        refused = client.post(f"/collections/{name}/documents", json={"documents": documents(2, seed=2)})
        assert refused.status_code == 503
        assert refused.json["code"] == "busy"
        assert int(refused.headers["Retry-After"]) > 0


def test_one_bad_document_refuses_the_whole_request(client, filled, unchanged):
    name = filled(documents(3, seed=1))
    good, bad = documents(2, seed=2)
    with unchanged(name):
        for broken in ({**bad, "embedding": [1.0]}, {**bad, "text": None}, {**bad, "id": good["id"]}):
            refused = client.post(f"/collections/{name}/documents", json={"documents": [good, broken]})
            assert refused.status_code == 400
            assert refused.json["details"]["index"] == 1
