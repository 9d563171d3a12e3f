"""Contract *documents*, over HTTP: ingestion answers, stores and refuses as described."""

import hashlib
import itertools

import pytest

from tests.scenarios.documents.conftest import BACKUPS, DOCUMENT, HOLIDAY, SENTENCE, fault


class TestIngestion:
    @pytest.mark.slow
    def test_the_status_is_unchanged_updated_or_created_by_text_or_hash(self, ingest, search):
        assert ingest()["status"] == "created"
        assert ingest()["status"] == "unchanged"
        assert ingest(text=HOLIDAY)["status"] == "updated"
        assert ingest(text=HOLIDAY, title="Another")["status"] == "updated"
        assert ingest(text=HOLIDAY, title="Another", tags=["a"])["status"] == "updated"
        assert ingest("/other")["status"] == "created"
        assert ingest("/hashed", hash="abc")["status"] == "created"
        assert ingest("/hashed", hash="abc", text=HOLIDAY)["status"] == "unchanged"
        texts = {each["metadata"]["path"]: each["text"] for each in search()["results"]}
        assert texts["/hashed"] == BACKUPS
        assert ingest("/hashed", hash="def", text=HOLIDAY)["status"] == "updated"
        assert ingest("/nulls", collection=None, hash=None, tags=None, metadata=None)["status"] == "created"

    @pytest.mark.slow
    def test_long_texts_become_chunks_that_overlap_and_an_update_leaves_none_of_them(self, ingest, client):
        answer = ingest(text="".join(SENTENCE.format(number) for number in range(200)))
        asked = {"where": {"document_id": answer["documentId"]}, "order_by": "chunk_index", "limit": 100}

        def stored():
            return client.post("/collections/rag-documents/documents/search", json=asked).json["documents"]

        chunks = stored()
        assert len(chunks) == answer["chunkCount"] == chunks[0]["metadata"]["chunk_count"] > 2
        for before, after in itertools.pairwise(chunks):
            shared = next(n for n in range(len(after["text"]), 0, -1) if before["text"].endswith(after["text"][:n]))
            assert after["text"][:shared].startswith("Sentence number")
        assert all(f"number {number} tells" in "".join(each["text"] for each in chunks) for number in range(200))
        ingest(text=BACKUPS)
        assert [each["text"] for each in stored()] == [BACKUPS]

    @pytest.mark.parametrize("name", ["source", "path", "title", "text"])
    def test_a_missing_required_field_is_named(self, client, name):
        for value in ("absent", None, "", "  ", 7, ["x"]):
            body = DOCUMENT | {name: value}
            if value == "absent":
                del body[name]
            answer = client.post("/api/rag/ingest", json=body)
            assert answer.status_code == 400, value
            field, sentence = fault(answer.json)
            assert field == name, value
            if value in ("absent", None):
                assert sentence == f"{name} is required"

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            *((DOCUMENT | {"source": wrong}, "source") for wrong in ("git hub", "git/hub", "ä", "github\n", "a.b")),
            *((DOCUMENT | {"tags": wrong}, "tags") for wrong in ("a", [1], ["a", None], {"a": 1})),
            ({}, "source"),
            ({"source": "git hub"}, "source"),
            ({"source": "git hub", "tags": [1], "metadata": 7}, "source"),
            ({"source": "github", "tags": [1]}, "path"),
            ({"source": "github", "path": "/a", "text": "x", "tags": [1]}, "title"),
            ({"source": "github", "path": "/a", "title": "A", "text": " ", "tags": [1]}, "text"),
        ],
    )
    def test_a_source_or_tag_of_another_form_is_refused_and_of_several_faults_the_first_named(
        self, client, body, field
    ):
        """The first in the contract's order."""
        answer = client.post("/api/rag/ingest", json=body)
        assert (answer.status_code, fault(answer.json)[0]) == (400, field)

    def test_the_answer_has_exactly_three_fields_and_a_collection_is_refused_with_the_route_that_takes_one(
        self, client, source, ingest
    ):
        body = {"source": source, "path": "/a", "title": "A", "text": "x", "collection": "elsewhere"}
        answer = client.post("/api/rag/ingest", json=body)
        assert (answer.status_code, answer.json["code"]) == (400, "unknown_field")
        assert answer.json["details"]["field"] == "collection"
        assert "'collection' of POST /api/documents" in answer.json["message"]
        assert client.get("/api/documents", query_string={"source": source}).json["total"] == 0
        answer = client.post("/api/rag/ingest", json=body | {"collection": None, "on_conflict": "error"})
        assert fault(answer.json)[0] == "on_conflict"
        answer = ingest("/a")
        assert answer == {
            "status": "created",
            "documentId": hashlib.md5(f"{source}:/a".encode()).hexdigest(),
            "chunkCount": 1,
        }

    def test_metadata_are_preserved_and_forge_nothing_and_what_is_not_json_is_refused(self, ingest, search, client):
        answer = ingest(metadata={"team": "ops", "deep": {"a": [1]}, "documentId": "no", "source": "no", "path": "no"})
        (result,) = search()["results"]
        assert result["metadata"]["team"] == "ops"
        assert result["metadata"]["deep"] == {"a": [1]}
        assert result["metadata"]["documentId"] == answer["documentId"]
        assert result["metadata"]["path"] == "/doc"
        answer = client.post("/api/rag/ingest", data=b"{", content_type="application/json")
        assert (answer.status_code, answer.json["error"]) == (400, "Validation error")
        answer = client.post("/api/rag/ingest", data=b"x", content_type="text/plain")
        assert (answer.status_code, answer.json["error"]) == (415, "Unsupported media type")


def test_the_contracts_curl_line_works_literally(client):
    body = '{"source":"test","path":"/doc","title":"Test","text":"Content"}'
    answer = client.post("/api/rag/ingest", data=body, headers={"Content-Type": "application/json"}).json
    assert list(answer) == ["status", "documentId", "chunkCount"]
    assert answer["chunkCount"] == 1
