"""A write that is refused for want of disk space has not happened, and reads go on.

What a full queue refuses is tested in tests/wrapper/indexing/test_lag.py, bad documents in
tests/wrapper/routes/documents/test_add_documents.py.
"""

import json
import uuid

from schemas.documents import parse_document, to_batch
from tests.durability.workload import ask, documents, nearest
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
    before = ask(full, "GET", "/collections/kept")
    with full.session() as session:
        body = {"documents": documents(3, seed=2)}
        refused = [
            session.post(f"{base}/documents", json=body),
            session.post(f"{full.url}/collections", json={"name": "another"}),
            session.patch(f"{base}/documents/{given[0]['id']}", json={"text": "changed"}),
            session.put(f"{base}/metadata", json={"metadata": {"a": 1}}),
            session.post(
                f"{base}/documents", data=json.dumps(given[0]), headers={"Content-Type": "application/x-ndjson"}
            ),
            session.delete(f"{base}/documents", json={"ids": [given[0]["id"]]}),
            *(session.delete(each) for each in (f"{base}/documents/all", base)),
            *(session.post(full.url + path, json=body) for path, body in TEXTS.items()),
        ]
        assert [answer.status_code for answer in refused] == [507] * 11
        assert {answer.json()["code"] for answer in refused} == {"disk_floor_reached"}
    assert ask(full, "GET", "/collections/kept") == before
    disk = ask(full, "GET", "/health")["disk"]
    assert disk["free_mb"] < disk["floor_mb"] == 1_000_000_000
    assert nearest(full, "kept", given[0]["embedding"])[0] == [given[0]["id"]]
