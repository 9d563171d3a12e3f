"""What clients of this contract suffered elsewhere, each as a test of the service they have now."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests


def _document(number=0, **fields):
    return {"id": f"doc-{number}", "text": f"text {number}", "embedding": [1.0, float(number), 0.5], **fields}


def _query(client, name, embedding, **fields):
    answer = client.post(f"/collections/{name}/query", json={"query_embedding": embedding, **fields})
    assert answer.status_code == 200
    return answer.json["results"]


def test_listing_collections_gives_names_and_counts_not_client_objects(client, filled):
    name = filled([_document()])
    listed = client.get("/collections").json["collections"]
    mine = next(each for each in listed if each["name"] == name)
    expected = {"name": name, "count": 1, "metadata": {}, "dimension": 3, "metric": "cosine", "revision": 2}
    assert {field: mine[field] for field in expected} == expected


def test_merging_metadata_works_on_a_fresh_collection(client, filled):
    name = filled()
    answer = client.put(f"/collections/{name}/metadata?merge=true", json={"metadata": {"language": "en"}})
    assert answer.status_code == 200
    assert answer.json["metadata"] == {"language": "en"}


def test_merging_back_shown_metadata_works_when_it_holds_hnsw_keys(client, filled):
    name = filled(metadata={"hnsw:space": "cosine", "language": "en"})
    shown = client.get(f"/collections/{name}").json["metadata"]
    answer = client.put(
        f"/collections/{name}/metadata?merge=true", json={"metadata": {**shown, "hnsw:space": "l2", "topic": "backups"}}
    )
    assert answer.status_code == 200
    assert answer.json["metadata"] == {"language": "en", "topic": "backups"}
    assert client.get(f"/collections/{name}").json["metric"] == "cosine"


def test_an_empty_metadata_object_does_not_fail_a_batch(client, filled):
    name = filled([_document(0, metadata={}), _document(1, metadata={"page": 1}), _document(2, metadata=None)])
    documents = client.get(f"/collections/{name}/documents").json["documents"]
    assert [each["metadata"] for each in documents] == [{}, {"page": 1}, {}]


def test_unused_null_fields_do_not_fail_a_batch(client, collection):
    created = client.post(
        "/collections",
        json={"name": collection, "embedding_connection": None, "metadata": {"embedding_connection": None}},
    )
    assert created.status_code == 201
    assert created.json["metadata"] == {"embedding_connection": None}
    documents = [_document(0, embedding_connection=None), _document(1, metadata={"embedding_connection": None})]
    added = client.post(
        f"/collections/{collection}/documents", json={"documents": documents, "embedding_connection": None}
    )
    assert added.status_code == 201
    assert added.json["indexed"] is True


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


def test_replacing_a_document_leaves_no_stale_metadata_that_matches_filters(client, chroma, filled):
    name = filled([_document(metadata={"draft": True, "page": 1, "tags": ["old"]})])
    client.post(f"/collections/{name}/documents", json={"documents": [_document(metadata={"page": 2})]})
    for where in ({"draft": True}, {"page": 1}, {"tags": {"$contains": "old"}}, {"draft": {"$exists": True}}):
        assert client.post(f"/collections/{name}/documents/search", json={"where": where}).json["total"] == 0
        assert _query(client, name, [1.0, 0.0, 0.5], where=where) == []
    assert chroma.get_collection(name, embedding_function=None).get()["metadatas"] == [{"page": 2}]


def test_an_emptied_collection_takes_another_dimension(client, chroma, filled):
    name = filled([_document()], metadata={"language": "en"})
    emptied = client.delete(f"/collections/{name}/documents/all")
    assert emptied.json["count_deleted"] == 1
    shown = client.get(f"/collections/{name}").json
    assert (shown["dimension"], shown["count"], shown["metadata"]) == (None, 0, {"language": "en"})
    added = client.post(f"/collections/{name}/documents", json={"documents": [_document(embedding=[0.5] * 7)]})
    assert added.status_code == 201
    assert client.get(f"/collections/{name}").json["dimension"] == 7
    assert [each["id"] for each in _query(client, name, [0.5] * 7)] == ["doc-0"]
    stored = chroma.get_collection(name, embedding_function=None)
    assert stored.count() == 1
    assert stored.metadata == {"language": "en"}


def test_total_counts_all_matches_not_the_page(client, filled):
    name = filled([_document(number, metadata={"even": number % 2 == 0}) for number in range(30)])
    answer = client.get(f"/collections/{name}/documents", query_string={"where": '{"even":true}', "limit": 4}).json
    assert (answer["count"], answer["total"]) == (4, 15)


def test_unknown_collections_are_not_found_whatever_the_route(client, collection):
    body = {
        "query_embedding": [1.0],
        "documents": [_document()],
        "metadata": {},
        "by": "page",
        "ids": ["a"],
        "query": "x",
    }
    routes = [
        ("GET", ""),
        ("DELETE", ""),
        ("PUT", "/metadata"),
        ("PATCH", "/metadata"),
        ("GET", "/documents"),
        ("POST", "/documents"),
        ("DELETE", "/documents"),
        ("DELETE", "/documents/all"),
        ("POST", "/documents/search"),
        ("GET", "/documents/count"),
        ("GET", "/documents/doc-0"),
        ("GET", "/metadata-values?field=page"),
        ("GET", "/facets?fields=page"),
        ("POST", "/query"),
        ("POST", "/gather"),
        ("POST", "/text-search"),
    ]
    for method, route in routes:
        sent = {key: value for key, value in body.items() if key != "query" or route == "/text-search"}
        if route == "/query":
            del sent["ids"]
        answer = client.open(f"/collections/{collection}{route}", method=method, json=sent)
        assert answer.status_code == 404, (method, route, answer.json)
        assert answer.json["error"] == f"Collection '{collection}' not found"
    answer = client.patch(f"/collections/{collection}/documents/doc-0", json={"text": "x"})
    assert answer.json["code"] == "collection_not_found"
    answer = client.post("/query", json={"collection": collection, "query_embedding": [1.0]})
    assert answer.json["error"] == f"Collection '{collection}' not found"


def test_a_limit_of_5000_is_capped_not_refused(client, filled):
    name = filled([_document()])
    assert client.get(f"/collections/{name}/documents?limit=5000").status_code == 200
    assert client.post(f"/collections/{name}/documents/search", json={"limit": 5000}).status_code == 200


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


def test_more_than_5461_documents_go_in_one_request(client, chroma, filled):
    name = filled()
    documents = [_document(number, metadata={"number": number}) for number in range(6_000)]
    answer = client.post(f"/collections/{name}/documents", json={"documents": documents})
    assert answer.status_code == 201
    assert (answer.json["count"], answer.json["created"]) == (6_000, 6_000)
    assert answer.json["ids"] == [document["id"] for document in documents]
    assert client.get(f"/collections/{name}/documents/count").json["count"] == 6_000
    assert chroma.get_collection(name, embedding_function=None).count() == 6_000


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
        pytest.param({"$and": [{"page": 1}]}, [1], id="one-branch $and"),
        pytest.param({"page": {"$in": []}}, [], id="empty $in"),
        pytest.param({"page": {"$in": [1, "two", 3.0, True]}}, [1, 3], id="mixed $in"),
        pytest.param({"page": {"$gte": 1, "$lt": 3}}, [1, 2], id="two operators on a field"),
        pytest.param({"page": {"$gte": 1, "$lt": 9, "$ne": 2}}, [1, 3], id="three operators on a field"),
    ],
)
def test_filters_that_used_to_fail(client, filled, where, matches):
    name = filled([_document(number, metadata={"page": number}) for number in range(4)])
    wanted = [f"doc-{number}" for number in matches]
    listed = client.get(f"/collections/{name}/documents", query_string={"where": json.dumps(where)}).json
    assert [each["id"] for each in listed["documents"]] == wanted
    assert sorted(each["id"] for each in _query(client, name, [1.0, 1.0, 1.0], top_k=10, where=where)) == wanted


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        ({"page": 1.5}, []),
        ({"page": {"$gte": 1.5}}, [2, 3]),
        ({"page": {"$gt": 1.5}}, [2, 3]),
        ({"page": {"$lt": 1.5}}, [0, 1]),
        ({"page": {"$lte": 1.5}}, [0, 1]),
        ({"page": {"$ne": 1.5}}, [0, 1, 2, 3]),
        ({"page": {"$in": [1.5, 2.0]}}, [2]),
    ],
)
def test_float_operands_are_not_truncated_against_integers(client, filled, where, matches):
    name = filled([_document(number, metadata={"page": number}) for number in range(4)])
    wanted = [f"doc-{number}" for number in matches]
    listed = client.post(f"/collections/{name}/documents/search", json={"where": where}).json
    assert [each["id"] for each in listed["documents"]] == wanted
    assert sorted(each["id"] for each in _query(client, name, [1.0, 1.0, 1.0], top_k=10, where=where)) == wanted


def test_health_and_its_status_code_agree(client):
    answer = client.get("/health")
    assert answer.status_code == 200
    assert answer.json["status"] == "healthy"
    assert answer.json["engine"]["status"] == "ready"
    assert answer.json["catalog"]["status"] == "healthy"
    assert "error" not in answer.json


def test_a_kept_alive_connection_survives_errors(live, collection):
    document = {"text": "x", "embedding": [1.0]}
    with live.one_connection() as connection:
        for status, method, path, body in [
            (415, "POST", "/collections", b"x" * 100_000),
            (400, "POST", "/collections", {"name": "!"}),
            (404, "POST", f"/collections/{collection}/documents", {"documents": [document] * 1000}),
            (404, "POST", "/no-such-route", b"x" * 100_000),
            (405, "PUT", "/collections", {"name": "abc"}),
            (413, "POST", "/collections", {"name": "x" * 9_000_000}),
            (200, "GET", "/live", None),
        ]:
            assert connection.ask(method, path, body).status == status


def test_a_browser_sends_1000_documents_of_1536_dimensions(client, filled):
    name = filled()
    rows = [[round((number * 7 + place) % 1000 / 1000 - 0.5, 4) for place in range(1536)] for number in range(1000)]
    documents = [
        {"id": f"doc-{number}", "text": f"text {number}", "metadata": {"number": number}, "embedding": row}
        for number, row in enumerate(rows)
    ]
    answer = client.post(f"/collections/{name}/documents", json={"documents": documents})
    assert answer.status_code == 201
    assert answer.json["count"] == 1000
    assert client.get(f"/collections/{name}").json["dimension"] == 1536
    assert _query(client, name, rows[500], top_k=1)[0]["distance"] == pytest.approx(0.0, abs=1e-6)


def test_a_client_that_retries_a_failure_with_the_same_ids_stores_them_once(client, filled):
    name = filled()
    documents = [_document(number) for number in range(5)]
    answers = [client.post(f"/collections/{name}/documents", json={"documents": documents}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert [answer.json["ids"] for answer in answers] == [[f"doc-{number}" for number in range(5)]] * 3
    assert [(answer.json["created"], answer.json["unchanged"]) for answer in answers] == [(5, 0), (0, 5), (0, 5)]
    assert client.get(f"/collections/{name}/documents").json["total"] == 5


def test_a_client_that_exits_unless_health_is_200_healthy_goes_on(live):
    answer = requests.get(f"{live.url}/health", timeout=10)
    assert (answer.status_code, answer.json()["status"]) == (200, "healthy")
