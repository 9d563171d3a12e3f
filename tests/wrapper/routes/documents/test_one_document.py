"""One document is put and deleted by its id, and the metadata of many is changed by a filter."""

import pytest

DOCUMENTS = [
    {"id": "a", "text": "first", "metadata": {"group": 1, "title": "old"}, "embedding": [1.0, 0.0]},
    {"id": "b", "text": "second", "metadata": {"group": 1}, "embedding": [0.0, 1.0]},
    {"id": "c", "text": "third", "metadata": {"group": 2}, "embedding": [1.0, 1.0]},
]


@pytest.fixture
def docs(filled):
    return filled(DOCUMENTS)


class TestPut:
    def test_a_document_is_stored_whole(self, client, docs):
        path = f"/collections/{docs}/documents"
        first = client.put(f"{path}/new one", json={"text": "one", "embedding": [1.0, 0.5]})
        assert (first.status_code, first.json["status"], first.json["id"]) == (201, "created", "new one")
        body = {"id": "new one", "text": "two", "metadata": {"x": 1}, "embedding": [1.0, 0.5]}
        assert client.put(f"{path}/new one", json=body).json["status"] == "replaced"
        again = client.put(f"{path}/new one", json=body)
        assert (again.status_code, again.json["status"]) == (200, "unchanged")
        assert client.get(f"{path}/new one").json == {"id": "new one", "text": "two", "metadata": {"x": 1}}


class TestDelete:
    def test_it_is_gone(self, client, docs):
        answer = client.delete(f"/collections/{docs}/documents/a")
        assert (answer.status_code, answer.json["count"]) == (200, 1)
        again = client.delete(f"/collections/{docs}/documents/a")
        assert (again.status_code, again.json["code"]) == (404, "document_not_found")
        asked = {"query_embedding": [1.0, 0.0], "top_k": 5}
        found = client.post(f"/collections/{docs}/query", json=asked).json["results"]
        assert [each["id"] for each in found] == ["c", "b"]


class TestPatchMany:
    def test_the_metadata_of_all_that_match_is_changed(self, client, chroma, docs):
        body = {"where": {"group": 1}, "metadata": {"seen": True, "title": None}}
        answer = client.patch(f"/collections/{docs}/documents", json=body)
        revision = client.get(f"/collections/{docs}").json["revision"]
        assert answer.status_code == 200
        assert answer.json == {
            "status": "updated",
            "collection": docs,
            "count": 2,
            "updated": 2,
            "unchanged": 0,
            "revision": revision,
            "indexed": True,
        }
        page = client.get(f"/collections/{docs}/documents", query_string={"where": '{"seen": true}'}).json
        assert [(each["id"], each["metadata"]) for each in page["documents"]] == [
            ("a", {"group": 1, "seen": True}),
            ("b", {"group": 1, "seen": True}),
        ]
        stored = chroma.get_collection(docs, embedding_function=None).get(ids=["a"], include=["metadatas"])
        assert stored["metadatas"] == [{"group": 1, "seen": True}]
        assert client.patch(f"/collections/{docs}/documents", json=body).json["unchanged"] == 2

    def test_words_of_titles_follow(self, client, docs):
        def found(words):
            answer = client.post(f"/collections/{docs}/text-search", json={"query": words})
            return [each["id"] for each in answer.json["results"]]

        assert found("old") == ["a"]
        client.patch(f"/collections/{docs}/documents", json={"ids": ["a", "nobody"], "metadata": {"title": "novel"}})
        assert (found("old"), found("novel")) == ([], ["a"])

    def test_ids_and_a_filter_both_count(self, client, docs):
        body = {"ids": ["a", "c"], "where": {"group": 2}, "metadata": {"x": 1}}
        assert client.patch(f"/collections/{docs}/documents", json=body).json["count"] == 1

    def test_an_empty_filter_means_all(self, client, docs):
        body = {"where": {}, "metadata": {"x": 1}}
        assert client.patch(f"/collections/{docs}/documents", json=body).json["updated"] == 3

    def test_beyond_the_bounds_nothing_is_changed(self, client, filled):
        full = {f"f{number}": number for number in range(2_000)}
        name = filled([DOCUMENTS[0], {**DOCUMENTS[1], "metadata": full}])
        answer = client.patch(f"/collections/{name}/documents", json={"where": {}, "metadata": {"one more": 1}})
        assert (answer.status_code, answer.json["details"]["id"]) == (400, "b")
        assert client.get(f"/collections/{name}/documents/a").json["metadata"] == DOCUMENTS[0]["metadata"]
