"""What clients of this contract suffered elsewhere, each as a test of the service they have now."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import ANY

import pytest

from tests.scenarios.databases import ON_BOTH


def _document(number=0, **fields):
    return {"id": f"doc-{number}", "text": f"text {number}", "embedding": [1.0, float(number), 0.5], **fields}


def _query(client, name, embedding, **fields):
    answer = client.post(f"/collections/{name}/query", json={"query_embedding": embedding, **fields})
    assert answer.status_code == 200
    return answer.json["results"]


def test_fields_that_are_empty_or_null_do_not_fail_a_batch(client, collection):
    created = client.post(
        "/collections",
        json={"name": collection, "embedding_connection": None, "metadata": {"embedding_connection": None}},
    )
    assert (created.status_code, created.json["metadata"]) == (201, {"embedding_connection": None})
    told = [{}, {"page": 1}, None, {"embedding_connection": None}]
    documents = [_document(number, embedding_connection=None, metadata=each) for number, each in enumerate(told)]
    body = {"documents": documents, "embedding_connection": None}
    assert client.post(f"/collections/{collection}/documents", json=body).status_code == 201
    stored = client.get(f"/collections/{collection}/documents").json["documents"]
    assert [each["metadata"] for each in stored] == [each or {} for each in told]


@pytest.mark.parametrize("value", [["a", "b"], [1, 2], [], ["a", 1], [[1], {"deep": [None]}]])
def test_an_array_in_collection_metadata_is_kept_and_crashes_nothing(client, chroma, filled, value):
    name = filled([_document()], metadata={"tags": value, "language": "en"})
    assert client.get(f"/collections/{name}").json["metadata"] == {"tags": value, "language": "en"}
    assert client.patch(f"/collections/{name}/metadata", json={"metadata": {"more": value}}).status_code == 200
    assert chroma.get_collection(name, embedding_function=None).metadata["language"] == "en"
    assert [each["id"] for each in _query(client, name, [1.0, 0.0, 0.5])] == ["doc-0"]


def test_re_adding_an_id_replaces_the_document(client, chroma, filled):
    name = filled([_document()])
    again = {"id": "doc-0", "text": "new text", "metadata": {"new": True}, "embedding": [0.0, 0.0, -1.0]}
    answer = client.post(f"/collections/{name}/documents", json={"documents": [again]})
    assert (answer.json["created"], answer.json["updated"]) == (0, 1)
    found = _query(client, name, [0.0, 0.0, -1.0], top_k=1)[0]
    assert (found["text"], found["metadata"], found["distance"]) == ("new text", {"new": True}, pytest.approx(0.0))
    stored = chroma.get_collection(name, embedding_function=None).get(include=["documents", "embeddings"])
    assert stored["documents"] == ["new text"]
    assert stored["embeddings"].tolist() == [[0.0, 0.0, -1.0]]


@ON_BOTH
def test_replacing_a_document_leaves_no_stale_metadata_that_matches_filters(client, chroma, filled):
    name = filled([_document(metadata={"draft": True, "page": 1, "tags": ["old"]})])
    client.post(f"/collections/{name}/documents", json={"documents": [_document(metadata={"page": 2})]})
    for where in ({"draft": True}, {"page": 1}, {"tags": {"$contains": "old"}}, {"draft": {"$exists": True}}):
        assert client.post(f"/collections/{name}/documents/search", json={"where": where}).json["total"] == 0
        assert _query(client, name, [1.0, 0.0, 0.5], where=where) == []
    assert chroma.get_collection(name, embedding_function=None).get()["metadatas"] == [{"page": 2}]


def test_an_emptied_collection_takes_another_dimension(client, chroma, filled):
    name = filled([_document()], metadata={"language": "en"})
    assert client.delete(f"/collections/{name}/documents/all").json["count_deleted"] == 1
    added = client.post(f"/collections/{name}/documents", json={"documents": [_document(embedding=[0.5] * 7)]})
    assert added.status_code == 201
    assert client.get(f"/collections/{name}").json["dimension"] == 7
    assert [each["id"] for each in _query(client, name, [0.5] * 7)] == ["doc-0"]
    stored = chroma.get_collection(name, embedding_function=None)
    assert (stored.count(), stored.metadata) == (1, {"language": "en", "rag:catalogue": ANY})


def test_unknown_collections_are_not_found_whatever_the_route(client, collection):
    paths = {
        "GET": ["", "/documents", "/documents/count", "/documents/doc-0", "/metadata-values?field=page"],
        "DELETE": ["", "/documents", "/documents/all"],
        "PUT": ["/metadata"],
        "PATCH": ["/metadata", "/documents/doc-0"],
        "POST": ["/documents", "/documents/search", "/query", "/gather", "/text-search"],
    }
    known = {"metadata": {}, "documents": [_document()], "query_embedding": [1.0], "by": "page"}
    wrong = []
    for method, path in ((each, path) for each in paths for path in paths[each]):
        body = {**known, **({"query": "x"} if path == "/text-search" else {} if path == "/query" else {"ids": ["a"]})}
        body = body if method != "DELETE" else {"ids": ["a"]} if path == "/documents" else None
        answer = client.open(f"/collections/{collection}{path}", method=method, json=body)
        if (answer.status_code, answer.json["code"]) != (404, "collection_not_found"):
            wrong.append((method, path, answer.json))
    assert wrong == []


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e39", "1e400"])
def test_vectors_that_are_not_finite_never_get_in(client, filled, unchanged, number):
    name = filled([_document()])
    with unchanged(name):
        for route, body in (
            ("documents", f'{{"documents":[{{"id":"bad","text":"x","embedding":[1.0,{number},0.5]}}]}}'),
            ("query", f'{{"query_embedding":[1.0,{number},0.5]}}'),
        ):
            answer = client.post(f"/collections/{name}/{route}", data=body, content_type="application/json")
            assert answer.status_code == 400
    assert [each["id"] for each in _query(client, name, [1.0, 0.0, 0.5])] == ["doc-0"]


@pytest.mark.slow
@ON_BOTH
def test_more_than_5461_documents_go_in_one_request(client, chroma, filled):
    name = filled()
    documents = [_document(number, metadata={"number": number}) for number in range(6_000)]
    answer = client.post(f"/collections/{name}/documents", json={"documents": documents})
    assert answer.status_code == 201
    assert (answer.json["count"], answer.json["created"]) == (6_000, 6_000)
    assert answer.json["ids"] == [document["id"] for document in documents]
    assert client.get(f"/collections/{name}/documents/count").json["count"] == 6_000
    assert chroma.get_collection(name, embedding_function=None).count() == 6_000


@ON_BOTH
def test_parallel_merges_lose_no_update(app, filled):
    name = filled(metadata={"start": True})
    together = threading.Barrier(8)

    def merge(worker):
        client = app.test_client()
        together.wait()
        for number in range(5):
            patch = {"metadata": {f"worker-{worker}-{number}": number}}
            assert client.put(f"/collections/{name}/metadata?merge=true", json=patch).status_code == 200

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(merge, range(8)))
    merged = app.test_client().get(f"/collections/{name}").json
    assert merged["metadata"] == {
        "start": True,
        **{f"worker-{worker}-{number}": number for worker in range(8) for number in range(5)},
    }
    assert merged["revision"] == 41


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        pytest.param({"$or": [{"page": 1}]}, [1], id="one-branch $or"),
        pytest.param({"page": {"$in": []}}, [], id="empty $in"),
        pytest.param({"page": {"$in": [1, "two", 3.0, True]}}, [1, 3], id="mixed $in"),
        pytest.param({"page": {"$gte": 1, "$lt": 9, "$ne": 2}}, [1, 3], id="three operators on a field"),
        pytest.param({"page": {"$gte": 1.5}}, [2, 3], id="a fraction against integers"),
    ],
)
def test_filters_that_used_to_fail(client, filled, where, matches):
    name = filled([_document(number, metadata={"page": number}) for number in range(4)])
    wanted = [f"doc-{number}" for number in matches]
    listed = client.get(f"/collections/{name}/documents", query_string={"where": json.dumps(where)}).json
    assert [each["id"] for each in listed["documents"]] == wanted
    assert sorted(each["id"] for each in _query(client, name, [1.0, 1.0, 1.0], top_k=10, where=where)) == wanted


def test_a_client_that_retries_a_failure_with_the_same_ids_stores_them_once(client, filled):
    name = filled()
    documents = [_document(number) for number in range(5)]
    answers = [client.post(f"/collections/{name}/documents", json={"documents": documents}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert [answer.json["ids"] for answer in answers] == [[f"doc-{number}" for number in range(5)]] * 3
    assert [(answer.json["created"], answer.json["unchanged"]) for answer in answers] == [(5, 0), (0, 5), (0, 5)]
    assert client.get(f"/collections/{name}/documents").json["total"] == 5


@pytest.mark.slow
def test_a_browser_sends_1000_documents_of_1536_dimensions(client, filled):
    name = filled()
    rows = [[(number * 7 + place) % 1000 / 1000 - 0.5 for place in range(1536)] for number in range(1000)]
    documents = [{"id": f"doc-{number}", "text": "x", "embedding": row} for number, row in enumerate(rows)]
    answer = client.post(f"/collections/{name}/documents", json={"documents": documents})
    assert (answer.status_code, answer.json["count"]) == (201, 1000)
    assert client.get(f"/collections/{name}").json["dimension"] == 1536
    assert _query(client, name, rows[500], top_k=1)[0]["distance"] == pytest.approx(0.0, abs=1e-6)
