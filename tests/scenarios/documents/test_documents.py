"""Contract *documents*, over HTTP: documents are listed, deleted and counted."""

import hashlib
import uuid
from urllib.parse import quote

import pytest

from tests.scenarios.documents.conftest import BACKUPS, HOLIDAY, SENTENCE, fault


def rule_of(source, filename, **more):
    told = {"source": source, "doc_type": "ops", "last_update_date": "2026-01-31"}
    return {"filename": filename, "content": BACKUPS, "metadata": told, **more}


class TestDocuments:
    @pytest.mark.slow
    def test_documents_are_listed_and_deleted(self, ingest, client, source, search):
        first = ingest("/a", tags=["x"], hash="h1")
        before = client.get("/api/rag/documents?limit=1").json["total"]
        second = ingest("/b")
        listed, cursor = {}, None
        while True:
            page = client.get("/api/rag/documents", query_string={"limit": 2, **({"cursor": cursor} if cursor else {})})
            assert page.status_code == 200
            listed |= {each["documentId"]: each for each in page.json["documents"]}
            cursor = page.json["nextCursor"]
            if cursor is None:
                break
        assert len(listed) == page.json["total"] == before + 1
        known = listed[first["documentId"]]
        assert (known["source"], known["path"], known["title"]) == (source, "/a", "Title of /a")
        assert (known["hash"], known["tags"], known["chunkCount"]) == ("h1", ["x"], 1)
        assert known["createdAt"] == known["updatedAt"]
        assert listed[second["documentId"]]["hash"] == hashlib.sha256(BACKUPS.encode()).hexdigest()
        deleted = client.delete(f"/api/rag/documents/{first['documentId']}")
        told = {"status": "deleted", "documentId": first["documentId"], "chunkCount": 1, "collection": "rag-documents"}
        assert deleted.json == told
        assert [each["metadata"]["path"] for each in search()["results"]] == ["/b"]

    @pytest.mark.slow
    def test_documents_are_listed_by_source_path_and_tag_and_an_update_keeps_the_time_of_creation(
        self, ingest, client, source
    ):
        ingest("/a", tags=["red", "green"])
        ingest("/b", tags=["green"])

        def paths(**filters):
            answer = client.get("/api/rag/documents", query_string={"source": source, **filters}).json
            assert answer["total"] == answer["count"] == len(answer["documents"])
            return [each["path"] for each in answer["documents"]]

        assert paths() == ["/a", "/b"]
        assert paths(path="/b") == ["/b"]
        assert paths(tag="red") == ["/a"]
        assert paths(tag="green", path="/b") == ["/b"]
        assert paths(source="nowhere") == []
        answer = client.get("/api/rag/documents", query_string={"source": " "})
        assert (answer.status_code, fault(answer.json)[0]) == (400, "source")

        def listed():
            filters = {"source": source, "path": "/b"}
            (found,) = client.get("/api/rag/documents", query_string=filters).json["documents"]
            return found

        before = listed()
        ingest("/b", text=HOLIDAY)
        after = listed()
        assert after["createdAt"] == before["createdAt"] == before["updatedAt"] < after["updatedAt"]

    def test_a_document_that_another_contract_stored_is_found_and_deleted_by_its_id(
        self, client, search, source, collection, ingest
    ):
        batch = {"documents": [rule_of(source, f"{source}.md")], "collection": collection}
        assert client.post("/api/rag/documents:batch", json=batch).json["documents_failed"] == 0
        [found] = search()["results"]
        assert found["metadata"]["collection"] == collection
        deleted = client.delete(f"/api/rag/documents/{found['metadata']['documentId']}")
        assert (deleted.status_code, deleted.json["collection"], deleted.json["chunkCount"]) == (200, collection, 1)
        assert search()["results"] == []
        ingest("/a")
        body = {"query": BACKUPS, "context_key": "a:b", "min_relevance": 0, "where": {"source": source}}
        [chunk] = client.post("/api/rag/retrieve", json=body).json["document_chunks"]
        assert chunk["document_id"] != chunk["metadata"]["doc_id"]
        assert client.delete(f"/api/rag/documents/{chunk['document_id']}").json["collection"] == "rag-documents"
        assert client.post("/api/rag/retrieve", json=body).json["document_chunks"] == []

    def test_a_document_stored_as_a_whole_is_deleted_by_its_own_id(self, app, client, collection, search, source):
        vector = app.extensions["rag.layers"].connections.open("default", "embedding").embed([BACKUPS])[0].tolist()
        told = {"name": collection, "metadata": {"embedding_model": "all-MiniLM-L6-v2"}}
        assert client.post("/collections", json=told).status_code == 201
        own = {"id": f"own/{source}", "text": BACKUPS, "embedding": vector, "metadata": {"source": source}}
        client.post(f"/collections/{collection}/documents", json={"documents": [own]})
        [found] = search()["results"]
        assert (found["metadata"]["documentId"], found["metadata"]["collection"]) == (own["id"], collection)
        assert client.delete(f"/api/rag/documents/{quote(own['id'], safe='')}").json["chunkCount"] == 1
        assert search()["results"] == []

    def test_an_id_in_several_collections_is_a_conflict_that_names_them(self, client, collection, source):
        names = [f"{collection}-{number}" for number in (1, 2)]
        rule = rule_of(source, "a.md", document_id=str(uuid.uuid4()))
        for name in names:
            client.post("/api/rag/documents:batch", json={"documents": [rule], "collection": name})
        path = f"/api/rag/documents/{rule['document_id']}"
        answer = client.delete(path)
        refused = (answer.status_code, answer.json["error"], answer.json["code"])
        assert refused == (409, "Conflict", "ambiguous_document")
        assert answer.json["details"]["allowed"] == names
        for name in names:
            assert client.delete(path, query_string={"collection": name}).json["collection"] == name
        gone = client.delete(path)
        refused = (gone.status_code, gone.json["error"], gone.json["code"])
        assert refused == (404, "Not found", "document_not_found")
        missing = client.delete(path, query_string={"collection": "there-is-none"})
        assert (missing.status_code, missing.json["code"]) == (404, "collection_not_found")

    def test_metrics_count_documents_and_chunks(self, ingest, client):
        before = client.get("/api/rag/metrics").json
        added = ingest(text="".join(SENTENCE.format(number) for number in range(40)))
        after = client.get("/api/rag/metrics").json
        assert after["documents"] == before["documents"] + 1
        assert after["chunks"] == before["chunks"] + added["chunkCount"]
        assert after["embedding"] == {"provider": "minilm", "model": "all-MiniLM-L6-v2", "dimension": 384}
