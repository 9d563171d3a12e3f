"""The `where` grammar means the same on every route that takes a filter, and each fault is located."""

import json

import pytest

DOCUMENTS = {
    "int": {"n": 1},
    "float": {"n": 1.5},
    "two": {"n": 2},
    "string": {"n": "1"},
    "text": {"n": "apple", "date": "2026-11-21"},
    "true": {"n": True, "date": "2026-09-01"},
    "list": {"n": [1, "x", True, 2.5]},
    "dotted": {"n.a": "literal", "n": {"a": "path"}},
    "none": {},
}
MATCHES = [
    ({}, set(DOCUMENTS)),
    ({"n": {"$gte": 1, "$lt": 2}}, {"int", "float"}),
    ({"n": {"$in": [1, "apple", True]}}, {"int", "text", "true"}),
    ({"$not": {"n": {"$exists": True}}}, {"none"}),
    ({"n": {"$ne": 1}, "$or": [{"date": {"$gte": "2026-10-01"}}, {"n.a": "literal"}]}, {"text", "dotted"}),
    ({"'; DROP TABLE documents; --": 1}, set()),
]


@pytest.fixture(scope="module")
def corpus(shared_collection):
    """The name of a collection with one document per entry of DOCUMENTS, whose key is its id."""
    return shared_collection(
        [
            {"id": key, "text": key, "metadata": metadata, "embedding": [1.0, float(number)]}
            for number, (key, metadata) in enumerate(DOCUMENTS.items())
        ]
    )


@pytest.mark.parametrize(("where", "matches"), MATCHES, ids=[json.dumps(where) for where, _ in MATCHES])
def test_a_filter_means_the_same_everywhere(client, corpus, where, matches):
    url, text = f"/collections/{corpus}", json.dumps(where)
    listed = client.get(f"{url}/documents", query_string={"where": text}).json
    assert {each["id"] for each in listed["documents"]} == matches
    assert listed["total"] == len(matches)
    assert client.get(f"{url}/documents/count", query_string={"where": text}).json["count"] == len(matches)
    searched = client.post(f"{url}/documents/search", json={"where": where, "ids": list(DOCUMENTS)}).json
    assert {each["id"] for each in searched["documents"]} == matches
    queried = client.post(f"{url}/query", json={"query_embedding": [1, 3], "where": where, "top_k": 100}).json
    assert {each["id"] for each in queried["results"]} == matches
    facets = client.get(f"{url}/facets", query_string={"where": text, "fields": "date"}).json
    assert facets["total"] == len(matches)
    words = client.post(f"{url}/text-search", json={"query": " ".join(DOCUMENTS), "where": where, "top_k": 100}).json
    assert {each["id"] for each in words["results"]} == matches


FAULTS = [
    ([], "", "a filter must be an object"),
    ({"$or": [{"n": 1}, {"n": {"$gt": True}}]}, "/$or/1/n/$gt", "not a boolean"),
    ({"n": {"$in": list(range(10_001))}}, "/n/$in/10000", "more than 10000 values"),
]


@pytest.mark.parametrize(("where", "pointer", "reason"), FAULTS, ids=[json.dumps(each[0])[:50] for each in FAULTS])
def test_every_route_points_at_a_fault(client, corpus, unchanged, where, pointer, reason):
    url = f"/collections/{corpus}"
    bodies = {
        "documents/search": {"where": where},
        "query": {"query_embedding": [1, 2], "where": where},
        "gather": {"by": "n", "where": where},
        "text-search": {"query": "x", "where": where},
    }
    with unchanged(corpus):
        answers = [client.post(f"{url}/{route}", json=body) for route, body in bodies.items()]
        answers.append(client.delete(f"{url}/documents", json={"where": where}))
        if len(json.dumps(where)) < 8_000:
            query = {"where": json.dumps(where)}
            answers += [client.get(f"{url}/{route}", query_string=query) for route in ("documents", "documents/count")]
            answers.append(client.get(f"{url}/facets", query_string={**query, "fields": "n"}))
    for answer in answers:
        assert answer.status_code == 400
        assert answer.json["code"] == "invalid_where"
        assert (answer.json["details"]["field"], answer.json["details"]["pointer"]) == ("where", pointer)
        assert answer.json["message"].startswith("Invalid 'where' filter: ")
        assert reason in answer.json["message"]
