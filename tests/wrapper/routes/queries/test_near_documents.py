"""A query asks for what is near documents, asks several questions at once, and filters by ids."""

import orjson
import pytest

DOCUMENTS = [
    {"id": "east", "text": "e", "metadata": {"k": 1}, "embedding": [1.0, 0.0]},
    {"id": "north", "text": "n", "metadata": {"k": 2}, "embedding": [0.0, 2.0]},
    {"id": "north-east", "text": "ne", "metadata": {"k": 1}, "embedding": [1.0, 1.0]},
    {"id": "west", "text": "w", "metadata": {"k": 1}, "embedding": [-1.0, 0.1]},
]


@pytest.fixture(scope="module")
def docs(shared_collection):
    return shared_collection(DOCUMENTS)


def asked(client, name, **body):
    return client.post(f"/collections/{name}/query", json=body)


def ids(answer):
    return [each["id"] for each in answer["results"]]


class TestNear:
    def test_a_document_is_not_near_itself(self, client, docs):
        assert ids(asked(client, docs, ids=["east"], top_k=9).json) == ["north-east", "north", "west"]

    def test_directions_count_the_same_whatever_their_length(self, client, docs):
        answer = asked(client, docs, ids=["east", "north"], top_k=1).json
        assert ids(answer) == ["north-east"]
        assert answer["results"][0]["distance"] == pytest.approx(0, abs=1e-6)

    def test_what_has_no_direction_does_not_count_beside_what_has_one(self, client, filled):
        docs = filled(DOCUMENTS)
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

    def test_other_conditions_hold_too(self, client, docs):
        assert ids(asked(client, docs, ids=["north"], where={"k": 1}, top_k=1).json) == ["north-east"]

    def test_a_missing_document_is_named(self, client, docs):
        answer = asked(client, docs, ids=["east", "nobody"])
        assert (answer.status_code, answer.json["details"]["id"]) == (404, "nobody")


class TestQueries:
    def test_each_has_its_answer_in_their_order(self, client, docs):
        questions = [{"query_embedding": [1.0, 0.0], "top_k": 1}, {"ids": ["east"], "top_k": 1, "query": "as east"}]
        answers = asked(client, docs, queries=questions).json["answers"]
        assert [ids(each) for each in answers] == [["east"], ["north-east"]]
        assert answers == [asked(client, docs, **each).json for each in questions]

    def test_the_collection_may_be_in_the_body(self, client, docs):
        body = {"collection": docs, "queries": [{"query_embedding": [1.0, 0.0]}]}
        assert ids(client.post("/query", json=body).json["answers"][0])[0] == "east"


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

    @pytest.mark.parametrize(
        ("operand", "pointer"), [(7, "/$id/0"), ({"$gt": "a"}, "/$id/$gt"), ({"$in": ["a", 1]}, "/$id/$in/1")]
    )
    def test_what_is_wrong_has_a_pointer(self, client, docs, operand, pointer):
        answer = asked(client, docs, query_embedding=[1.0, 0.0], where={"$id": operand})
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_where")
        assert answer.json["details"]["pointer"] == pointer
