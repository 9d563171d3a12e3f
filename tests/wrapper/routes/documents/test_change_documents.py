"""Documents are changed and deleted by their ids, one or many, and by a filter."""

import pytest

from schemas.bounds import MAX_IDS
from tests.wrapper.routes.conftest import numbered_document


@pytest.fixture
def patch(client):
    def patch(name, body, document_id="doc-0"):
        return client.patch(f"/collections/{name}/documents/{document_id}", json=body)

    return patch


@pytest.fixture
def delete(client):
    def delete(name, body, **options):
        return client.delete(f"/collections/{name}/documents", json=body, **options)

    return delete


def _ids(client, name):
    return [document["id"] for document in client.get(f"/collections/{name}/documents").json["documents"]]


def test_a_patch_changes_only_the_parts_it_names_and_answers_with_the_document(patch, client, filled):
    name = filled([numbered_document(0, page=1), numbered_document(1)])
    url = f"/collections/{name}"
    answer = patch(name, {"text": "zebra"})
    assert (answer.status_code, answer.json) == (200, {"id": "doc-0", "text": "zebra", "metadata": {"page": 1}})
    shown = client.get(f"{url}/documents/doc-0?include=embedding").json
    assert shown == {"id": "doc-0", "text": "zebra", "metadata": {"page": 1}, "embedding": [1.0, 0.0]}
    assert [client.post(f"{url}/text-search", json={"query": each}).json["total"] for each in ("zebra", "0")] == [1, 0]
    assert patch(name, {"embedding": [-1.0, 0.0]}).status_code == 200
    found = client.post(f"{url}/query", json={"query_embedding": [-1, 0], "top_k": 1}).json["results"]
    assert (found[0]["id"], found[0]["distance"]) == ("doc-0", pytest.approx(0))
    assert patch(name, {"text": "zebra", "metadata": {"page": 1, "nobody": None}}).status_code == 200
    assert client.get(url).json["revision"] == 4, "what changes nothing makes no new revision"


def test_a_uri_is_set_changed_and_taken_away(patch, client, filled):
    name = filled([numbered_document(0)])
    for given, uri in (("file:///a", "file:///a"), (None, "file:///a"), ("file:///b", "file:///b"), ("", None)):
        assert patch(name, {"text": "new", "uri": given}).json.get("uri") == uri
        assert client.get(f"/collections/{name}/documents/doc-0").json.get("uri") == uri


def test_metadata_is_patched_deeply_and_null_removes(patch, client, chroma, filled):
    name = filled([numbered_document(0, a=1, b={"c": 1, "d": {"e": 1}}, draft=True, list=[1, 2])])
    answer = patch(name, {"metadata": {"a": 2, "b": {"c": None, "d": {"f": [None]}}, "draft": None, "list": [3]}})
    expected = {"a": 2, "b": {"d": {"e": 1, "f": [None]}}, "list": [3]}
    assert answer.json["metadata"] == expected
    assert client.get(f"/collections/{name}/documents/doc-0").json["metadata"] == expected
    for where, total in (({"draft": True}, 0), ({"b.c": 1}, 0), ({"a": 2}, 1), ({"b.d.e": 1}, 1)):
        assert client.post(f"/collections/{name}/documents/search", json={"where": where}).json["total"] == total
    assert "draft" not in chroma.get_collection(name, embedding_function=None).get()["metadatas"][0]


def test_repeated_patches_cannot_exceed_the_bounds_of_metadata(patch, filled, unchanged):
    name = filled([numbered_document(0, **{f"a{n}": n for n in range(1_500)})])
    with unchanged(name):
        answer = patch(name, {"metadata": {f"b{n}": n for n in range(501)}})
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_metadata")
    assert answer.json["details"] == {"field": "metadata", "limit": 2_000}
    assert patch(name, {"metadata": {f"b{n}": n for n in range(500)}}).status_code == 200


@pytest.mark.parametrize("bare", [False, True])
def test_deleting_by_ids_counts_the_documents_that_existed(delete, client, chroma, filled, bare):
    name = filled([numbered_document(number) for number in range(4)])
    ids = ["doc-1", "nobody", "doc-3", "doc-1"]
    answer = delete(name, ids if bare else {"ids": ids})
    told = {"status": "deleted", "collection": name, "count": 2, "revision": 3}
    assert (answer.status_code, answer.json) == (200, told)
    assert _ids(client, name) == ["doc-0", "doc-2"]
    assert chroma.get_collection(name, embedding_function=None).get()["ids"] == ["doc-0", "doc-2"]
    nearest = client.post(f"/collections/{name}/query", json={"query_embedding": [1, 3], "top_k": 9}).json["results"]
    assert {each["id"] for each in nearest} == {"doc-0", "doc-2"}


def test_deleting_nothing_makes_no_new_revision(delete, filled, unchanged):
    name = filled([numbered_document(0)])
    with unchanged(name):
        for body in ({"ids": []}, [], {"ids": ["nobody"]}, {"where": {"a": 1}}, {"where": {"a": {"$in": []}}}):
            answer = delete(name, body)
            assert (answer.status_code, answer.json["count"]) == (200, 0), body


def test_the_largest_number_of_ids_is_deleted_at_once_and_more_are_refused(delete, client, filled, unchanged):
    name = filled([numbered_document(0)])
    ids = [f"nobody-{number}" for number in range(MAX_IDS)] + ["doc-0"]
    with unchanged(name):
        for method, path in (("POST", "documents/search"), ("POST", "gather"), ("DELETE", "documents")):
            body = {"ids": ids} | ({"by": "page"} if path == "gather" else {})
            answer = client.open(f"/collections/{name}/{path}", method=method, json=body)
            assert (answer.status_code, answer.json["code"]) == (400, "too_many_ids"), path
            assert answer.json["details"] == {"field": "ids", "limit": MAX_IDS, "actual": MAX_IDS + 1}
    assert delete(name, ids[1:]).json["count"] == 1
    assert _ids(client, name) == []


@pytest.mark.parametrize("where", [{"nope": {"$exists": False}}, {"$or": [{"page": 0}, {"page": {"$gt": 0}}]}])
def test_a_filter_that_matches_everything_empties_a_collection_only_with_all(delete, client, filled, unchanged, where):
    name = filled([numbered_document(number, page=number) for number in range(3)])
    url, change = f"/collections/{name}/documents", {"where": where, "metadata": {"seen": True}}
    changed = [client.patch(url, json=change, query_string=query).status_code for query in ({}, {"all": "true"})]
    assert changed == [400 if "nope" in where else 200, 200]
    with unchanged(name):
        assert delete(name, {"where": {}}, query_string={"all": "true"}).status_code == 400, "not an empty one"
    for query in ({}, {"all": "false"}):
        with unchanged(name):
            answer = delete(name, {"where": where}, query_string=query)
        assert (answer.status_code, answer.json["code"]) == (400, "matches_everything")
        assert answer.json["details"] == {"field": "where", "count": 3}
        assert "all 3 documents" in answer.json["message"]
        assert "all=true" in answer.json["message"]
    answer = delete(name, {"where": where}, query_string={"all": "true"})
    assert (answer.status_code, answer.json["count"]) == (200, 3)
    assert _ids(client, name) == []
    assert client.get(f"/collections/{name}").json["dimension"] == 2
    again = delete(name, {"where": where})
    assert (again.status_code, again.json["count"]) == (200, 0)


@pytest.mark.parametrize("word", ["count", "search", "all"])
def test_a_document_whose_id_is_a_route_is_read_replaced_and_deleted_by_ids(delete, client, filled, word):
    name = filled([{**numbered_document(0), "id": word}, numbered_document(1)])
    documents = f"/collections/{name}/documents"
    for method in ("GET", "PATCH", "PUT"):
        answer = client.open(f"{documents}/{word}", method=method, json={"text": "x"})
        if (method, word) != ("GET", "count"):
            assert answer.status_code == 405
            assert f'POST …/documents/search or DELETE …/documents with {{"ids": ["{word}"]}}' in answer.json["message"]
            assert "POST …/documents replaces it" in answer.json["message"]
    assert client.get(f"{documents}/nobody/{word}").status_code == 404
    changed = client.post(documents, json={"documents": [{**numbered_document(2), "id": word, "text": "changed"}]})
    assert (changed.status_code, changed.json["updated"]) == (201, 1)
    found = client.post(f"{documents}/search", json={"ids": [word]}).json["documents"]
    assert [(each["id"], each["text"]) for each in found] == [(word, "changed")]
    assert delete(name, [word]).json["count"] == 1
    assert _ids(client, name) == ["doc-1"]


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
        assert answer.json | {"count": 2, "updated": 2, "unchanged": 0, "indexed": True} == answer.json
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

    def test_ids_and_a_filter_both_count_and_an_empty_filter_means_all(self, client, docs):
        for chosen, count in (({"ids": ["a", "c"], "where": {"group": 2}}, 1), ({"where": {}}, 3)):
            body = {**chosen, "metadata": {"x": 1}}
            assert client.patch(f"/collections/{docs}/documents", json=body).json["count"] == count, chosen

    def test_beyond_the_bounds_nothing_is_changed(self, client, filled):
        full = {f"f{number}": number for number in range(2_000)}
        name = filled([DOCUMENTS[0], {**DOCUMENTS[1], "metadata": full}])
        answer = client.patch(f"/collections/{name}/documents", json={"where": {}, "metadata": {"one more": 1}})
        assert (answer.status_code, answer.json["details"]["id"]) == (400, "b")
        assert client.get(f"/collections/{name}/documents/a").json["metadata"] == DOCUMENTS[0]["metadata"]
