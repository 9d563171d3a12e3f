"""`POST /query` and `POST /collections/{name}/query` return the nearest documents, their distances and scores; a query asks
for what is near documents, asks several questions at once, and filters by ids. `POST text-search` ranks texts by BM25."""

import base64
import math
import struct

import numpy as np
import orjson
import pytest

from tests.support.live import eventually
from wrapper.querying.costs import CostModel


def _document(number, embedding, **metadata):
    return {"id": f"doc-{number}", "text": f"text {number}", "metadata": metadata, "embedding": embedding}


DOCUMENTS = [
    _document(0, [1.0, 0.0], page=1),
    _document(1, [0.6, 0.8], page=2),
    _document(2, [0.0, 2.0], page=3),
    _document(3, [-3.0, 0.0], page=4),
]


@pytest.fixture(scope="module")
def name(shared_collection):
    return shared_collection(DOCUMENTS)


@pytest.fixture
def query(client):
    def query(name, embedding=(1.0, 0.0), **fields):
        return client.post(f"/collections/{name}/query", json={"query_embedding": list(embedding), **fields})

    return query


def _ids(answer):
    return [each["id"] for each in answer.json["results"]]


def test_an_answer_names_its_query_and_plan(query, filled):
    name = filled(DOCUMENTS, metadata={"language": "en"})
    answer = query(name, top_k=1, query="what was typed")
    assert answer.json == {
        "results": [
            {
                "id": "doc-0",
                "text": "text 0",
                "distance": pytest.approx(0),
                "score": pytest.approx(1),
                "metadata": {"page": 1},
            }
        ],
        "collection": name,
        "collection_metadata": {"language": "en"},
        "query": "what was typed",
        "plan": "exact",
        "revision": 2,
    }


def test_the_collection_may_be_named_in_the_body(client, query, name):
    body = {"collection": name, "query_embedding": [1, 0]}
    answer = client.post("/query", json=body)
    assert answer.json == query(name).json
    assert client.post(f"/collections/{name}/query", json=body).json == answer.json


def test_top_k_is_three_by_default_and_null_equals_absent(query, name):
    nothing = dict.fromkeys(("top_k", "where", "max_distance", "include", "gather", "query", "unknown"))
    assert len(_ids(query(name))) == len(_ids(query(name, **nothing))) == 3


@pytest.mark.parametrize("where", [None, {"page": {"$gt": 0}}])
def test_max_distance_leaves_out_farther_documents(query, name, where):
    assert _ids(query(name, top_k=4, max_distance=0.4, where=where)) == ["doc-0", "doc-1"]
    assert _ids(query(name, top_k=4, max_distance=0, where=where)) == ["doc-0"]
    assert _ids(query(name, top_k=4, max_distance=-1, where=where)) == []
    assert len(_ids(query(name, top_k=4, max_distance=1e308, where=where))) == 4


def test_an_empty_collection_gives_no_results(query, filled):
    answer = query(filled(), [0.1, 0.2, 0.3], gather={"by": "page"})
    assert (answer.status_code, answer.json["results"], answer.json["plan"]) == (200, [], "empty")
    assert answer.json["groups"] == []


def test_answers_of_an_index_have_its_recall(app, client, query, filled, monkeypatch):
    planner = app.extensions["rag.service"].store.query.__self__
    monkeypatch.setattr(planner, "_held", None)
    monkeypatch.setattr(planner, "_exact_ms", 0.0)
    monkeypatch.setattr(planner, "_costs", CostModel(index_base=0.0, index_per_candidate=0.0))
    vectors = np.random.default_rng(7).normal(size=(300, 8)).round(4)
    name = filled([_document(number, row.tolist(), even=number % 2 == 0) for number, row in enumerate(vectors)])

    def index():
        return client.get(f"/collections/{name}/index").json

    client.post(f"/collections/{name}/index/check")
    eventually(lambda: index()["recall_at_10"] is not None)
    for where, plan, recall in (
        (None, "index", "recall_at_10"),
        ({"even": True}, "index+filter", "filtered_recall_at_10"),
    ):
        answer = query(name, vectors[0].tolist(), top_k=10, where=where).json
        assert (answer["plan"], answer["recall_at_10"]) == (plan, index()[recall])
    assert "recall_at_10" not in query(name, vectors[0].tolist(), where={"even": "no"}).json
    assert 0 <= index()["filtered_recall_at_10"] <= 1

    def lowest():
        return client.get("/health").json["indexes"]["lowest_recall_at_10"]

    # The lowest may be another test's, whose filtered recall nobody has measured yet.
    eventually(lambda: lowest() is not None and lowest()["recall"] <= index()["recall_at_10"])
    assert lowest()["collection"] != name or lowest()["filtered_recall"] == index()["filtered_recall_at_10"]


def test_the_query_embedding_may_be_base64(client, name):
    encoded = base64.b64encode(struct.pack("<2f", 0.0, 1.0)).decode()
    answer = client.post(
        f"/collections/{name}/query", json={"query_embedding": encoded, "top_k": 1, "include": ["embedding"]}
    )
    assert (_ids(answer), answer.json["results"][0]["embedding"]) == (["doc-2"], [0.0, 2.0])


def test_a_query_needs_an_embedding(client, name):
    answer = client.post(f"/collections/{name}/query", json={"query": "words only"})
    assert answer.status_code == 400
    message = answer.json["message"]
    assert message.startswith("query_embedding is required: this route does not embed")
    assert all(route in message for route in ("/api/search", "/api/rag/search"))


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_huge_vectors_are_answered_in_finite_numbers(query, filled, metric):
    name = filled([_document(0, [3e38, 3e38]), _document(1, [-3e38, 3e38]), _document(2, [1.0, 1.0])], metric=metric)
    answer = query(name, [3e38, 3e38], top_k=3)
    assert answer.status_code == 200
    for result in answer.json["results"]:
        assert math.isfinite(result["distance"])
        assert 0 <= result["score"] <= 1


def test_get_query_is_a_readiness_probe(client, filled):
    filled()
    answer = client.get("/query")
    assert answer.status_code == 200
    assert answer.json == {"status": "ready", "collections": len(client.get("/collections").json["collections"])}


DIRECTIONS = [
    {"id": "east", "text": "e", "metadata": {"k": 1}, "embedding": [1.0, 0.0]},
    {"id": "north", "text": "n", "metadata": {"k": 2}, "embedding": [0.0, 2.0]},
    {"id": "north-east", "text": "ne", "metadata": {"k": 1}, "embedding": [1.0, 1.0]},
    {"id": "west", "text": "w", "metadata": {"k": 1}, "embedding": [-1.0, 0.1]},
]


@pytest.fixture(scope="module")
def docs(shared_collection):
    return shared_collection(DIRECTIONS)


def asked(client, name, **body):
    return client.post(f"/collections/{name}/query", json=body)


def ids(answer):
    return [each["id"] for each in answer["results"]]


class TestNear:
    def test_a_document_is_not_near_itself_and_directions_count_the_same_whatever_their_length(self, client, docs):
        assert ids(asked(client, docs, ids=["east"], top_k=9).json) == ["north-east", "north", "west"]
        answer = asked(client, docs, ids=["east", "north"], top_k=1).json
        assert ids(answer) == ["north-east"]
        assert answer["results"][0]["distance"] == pytest.approx(0, abs=1e-6)

    def test_what_has_no_direction_does_not_count_beside_what_has_one(self, client, filled):
        docs = filled(DIRECTIONS)
        lines = b"".join(
            orjson.dumps({"id": each, "text": "", "embedding": [0.0, 0.0]}) + b"\n" for each in ("zero", "nought")
        )
        imported = client.post(f"/collections/{docs}/import", data=lines, content_type="application/x-ndjson")
        assert imported.json["created"] == 2, imported.json
        answer = asked(client, docs, ids=["zero", "east", "nought"], top_k=2).json
        assert ids(answer) == ["north-east", "north"]
        assert answer["results"][0]["distance"] == pytest.approx(1 - 0.5**0.5)
        for near in (["zero"], ["zero", "nought"]):
            refused = asked(client, docs, ids=near)
            assert (refused.status_code, refused.json["code"]) == (400, "zero_vector")

    def test_other_conditions_hold_too_and_a_missing_document_is_named(self, client, docs):
        assert ids(asked(client, docs, ids=["north"], where={"k": 1}, top_k=1).json) == ["north-east"]
        answer = asked(client, docs, ids=["east", "nobody"])
        assert (answer.status_code, answer.json["details"]["id"]) == (404, "nobody")


class TestQueries:
    def test_each_has_its_answer_in_their_order(self, client, docs):
        questions = [{"query_embedding": [1.0, 0.0], "top_k": 1}, {"ids": ["east"], "top_k": 1, "query": "as east"}]
        answers = asked(client, docs, queries=questions).json["answers"]
        assert [ids(each) for each in answers] == [["east"], ["north-east"]]
        assert answers == [asked(client, docs, **each).json for each in questions]
        assert client.post("/query", json={"collection": docs, "queries": questions}).json["answers"] == answers


class TestMany:
    def test_more_than_one_request_gets_is_cut_and_said(self, client, docs):
        for top_k in (1_001, 10**6, 10**15):
            answer = asked(client, docs, query_embedding=[1.0, 0.0], top_k=top_k).json
            assert len(answer["results"]) == 4
            (warning,) = answer["warnings"]
            assert warning.startswith("top_k is 1,000")
        answer = client.get(f"/collections/{docs}/documents", query_string={"limit": 5_000}).json
        assert answer["warnings"] == ["limit is 1,000 instead of 5,000: one request gets no more"]


class TestIdsInFilters:
    @pytest.mark.parametrize(
        ("where", "found"),
        [
            ({"$id": "east"}, ["east"]),
            ({"$id": {"$in": ["west", "east", "nobody"]}}, ["east", "west"]),
            ({"$id": {"$nin": ["west", "east"]}, "k": 1}, ["north-east"]),
            ({"$or": [{"$id": "west"}, {"k": 2}]}, ["north", "west"]),
            ({"$not": {"$id": {"$in": ["west"]}}}, ["east", "north", "north-east"]),
        ],
    )
    def test_they_mean_the_same_everywhere(self, client, docs, where, found):
        page = client.post(f"/collections/{docs}/documents/search", json={"where": where}).json
        assert ([each["id"] for each in page["documents"]], page["total"]) == (found, len(found))
        near = asked(client, docs, query_embedding=[1.0, 0.0], where=where, top_k=9).json
        assert sorted(ids(near)) == found


TEXTS = {
    "backup": "Backups are kept for thirty days and then removed.",
    "backups twice": "Backups, backups: how backups are made.",
    "camel": "Call getUserName before HTTPServer.start.",
    "path": "Read std::env and a.b.c from the shell.",
    "umlaut": "Die Größe der Straße im Café.",
    "empty": "",
}


@pytest.fixture(scope="module")
def corpus(shared_collection):
    return shared_collection(
        [
            {"id": key, "text": text, "metadata": {"letters": len(text)}, "embedding": [1.0, float(number)]}
            for number, (key, text) in enumerate(TEXTS.items())
        ]
    )


@pytest.fixture
def search(client, corpus):
    def search(query, **fields):
        return client.post(f"/collections/{corpus}/text-search", json={"query": query, "top_k": 10, **fields})

    return search


def test_the_better_match_comes_first_with_the_higher_score(search):
    answer = search("backups")
    assert _ids(answer) == ["backups twice", "backup"]
    scores = [each["score"] for each in answer.json["results"]]
    assert scores[0] > scores[1] > 0
    assert answer.json["results"][1] == {
        "id": "backup",
        "text": TEXTS["backup"],
        "score": scores[1],
        "metadata": {"letters": len(TEXTS["backup"])},
    }
    assert (answer.json["total"], answer.json["revision"]) == (2, 2)


def test_a_question_of_a_thousand_words_is_answered_by_its_longest_words(search):
    assert _ids(search("it has " * 700 + "backups of all " + "x1 " * 500)) == ["backups twice", "backup"]


CHROMA = "/api/v2/tenants/default_tenant/databases/default_database/collections/{id}"
READS = {
    "/collections/{name}/query": {"queries": [{"query_embedding": [1, 0]}, {"query_embedding": [0, 1]}]},
    "/collections/{name}/gather": {"where": {}, "by": "page"},
    "/collections/{name}/text-search": {"query": "text"},
    **{f"/collections/{{name}}/{each}": None for each in ("facets?fields=page", "export", "projection")},
    **{f"{CHROMA}/query": {"query_embeddings": [[1, 0]]}, f"{CHROMA}/get": {}},
}


@pytest.mark.parametrize("path", READS)
def test_reads_that_take_too_long_are_given_up(client, name, monkeypatch, path):
    target = path.format(name=name, id=client.get(f"/collections/{name}").json["id"])
    monkeypatch.setitem(client.application.config, "QUERY_SECONDS", 0.0)
    answer = client.open(target, method="GET" if READS[path] is None else "POST", json=READS[path])
    assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "10")
    assert "given up" in answer.get_data(as_text=True)
