"""The `where` grammar means the same on every route that takes a filter, and each fault is located."""

import json

import pytest

DOCUMENTS = {
    "int": {"n": 1},
    "float": {"n": 1.5},
    "two": {"n": 2},
    "big": {"n": 2**53 + 1},
    "string": {"n": "1"},
    "text": {"n": "apple", "date": "2026-11-21"},
    "true": {"n": True, "date": "2026-09-01"},
    "false": {"n": False},
    "null": {"n": None},
    "list": {"n": [1, "x", True, 2.5]},
    "empty list": {"n": []},
    "nested": {"n": {"a": {"b": 7}}, "list": [{"a": 1}]},
    "dotted": {"n.a": "literal", "n": {"a": "path"}},
    "none": {},
    "odd": {"": 1, "a/b": 2, "~t": 3, "a b": 4, "'": 5, "ü": 6},
}
EVERYONE = set(DOCUMENTS)
HAVE_N = EVERYONE - {"none", "odd"}

MATCHES = [
    ({}, EVERYONE),
    ({"n": 1}, {"int"}),
    ({"n": 1.0}, {"int"}),
    ({"n": {"$eq": 1}}, {"int"}),
    ({"n": "1"}, {"string"}),
    ({"n": True}, {"true"}),
    ({"n": False}, {"false"}),
    ({"n": 1.5}, {"float"}),
    ({"n": 2**53 + 1}, {"big"}),
    ({"n": 2**53}, set()),
    ({"n": float(2**53)}, set()),
    ({"n": "APPLE"}, set()),
    ({"n": ""}, set()),
    ({"n": {"$ne": 1}}, EVERYONE - {"int"}),
    ({"n": {"$ne": "nobody"}}, EVERYONE),
    ({"n": {"$gt": 1}}, {"float", "two", "big"}),
    ({"n": {"$gte": 1}}, {"int", "float", "two", "big"}),
    ({"n": {"$lt": 2}}, {"int", "float"}),
    ({"n": {"$lte": 2}}, {"int", "float", "two"}),
    ({"n": {"$gt": 2**53}}, {"big"}),
    ({"n": {"$lt": -1e300}}, set()),
    ({"n": {"$gt": 1, "$lte": 2}}, {"float", "two"}),
    ({"n": {"$lt": 2, "$gt": 1}}, {"float"}),
    ({"n": {"$gt": 1, "$lte": 2, "$lt": 2}}, {"float"}),
    ({"n": {"$gt": 2, "$lt": 1}}, set()),
    ({"n": {"$gte": "1", "$lt": 2}}, set()),
    ({"n": {"$gte": "1", "$lt": "b"}}, {"string", "text"}),
    ({"$and": [{"n": {"$gte": 1}}, {"n": {"$lt": 2}}, {"date": {"$exists": False}}]}, {"int", "float"}),
    ({"$not": {"n": {"$gte": 1, "$lt": 2}}}, EVERYONE - {"int", "float"}),
    ({"n": {"$gt": 1, "$ne": 2}}, {"float", "two", "big"} - {"two"}),
    ({"n": {"$gte": "1"}}, {"string", "text"}),
    ({"n": {"$lt": "apple"}}, {"string"}),
    ({"date": {"$gte": "2026-10-01"}}, {"text"}),
    ({"date": {"$lt": "2026-10"}}, {"true"}),
    ({"n": {"$in": [1, "apple", True]}}, {"int", "text", "true"}),
    ({"n": {"$in": []}}, set()),
    ({"n": {"$in": [1, 1, 1.0]}}, {"int"}),
    ({"n": {"$nin": [1, "apple", True]}}, EVERYONE - {"int", "text", "true"}),
    ({"n": {"$nin": []}}, EVERYONE),
    ({"n": {"$exists": True}}, HAVE_N),
    ({"n": {"$exists": False}}, EVERYONE - HAVE_N),
    ({"n": {"$contains": 1}}, {"list"}),
    ({"n": {"$contains": True}}, {"list"}),
    ({"n": {"$contains": 2.5}}, {"list"}),
    ({"n": {"$contains": "ap"}}, set()),
    ({"n": {"$not_contains": 1}}, EVERYONE - {"list"}),
    ({"n": {"$not": {"$eq": 1}}}, EVERYONE - {"int"}),
    ({"n": {"$not": {"$gt": 1, "$lt": 3}}}, EVERYONE - {"float", "two"}),
    ({"n.a.b": 7}, {"nested"}),
    ({"n.a": "literal"}, {"dotted"}),
    ({"n.a": {"$exists": True}}, {"nested", "dotted"}),
    ({"n.a.b.c": {"$exists": True}}, set()),
    ({"$and": [{"n": {"$gte": 1}}, {"n": {"$lte": 1.5}}]}, {"int", "float"}),
    ({"$and": [{"n": 1}]}, {"int"}),
    ({"$or": [{"n": 1}, {"n": "1"}, {"n": 1.0}]}, {"int", "string"}),
    ({"$or": [{"n": 1}]}, {"int"}),
    ({"$or": [{"n": 1}, {}]}, EVERYONE),
    ({"$and": [{}, {"n": 1}]}, {"int"}),
    ({"$or": [{"n": {"$in": []}}, {"n": {"$in": []}}]}, set()),
    ({"$not": {"n": {"$exists": True}}}, EVERYONE - HAVE_N),
    ({"$not": {}}, set()),
    ({"$not": {"$not": {"n": 1}}}, {"int"}),
    ({"$not": {"$or": [{"n": {"$exists": True}}, {"": 1}]}}, {"none"}),
    ({"n": {"$gte": 1}, "$or": [{"n": 1}, {"n": 2}]}, {"int", "two"}),
    ({"n": {"$ne": 1}, "date": {"$exists": True}}, {"text", "true"}),
    ({"": 1}, {"odd"}),
    ({"a/b": 2, "~t": 3, "a b": 4, "'": 5, "ü": 6}, {"odd"}),
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


def _nested(levels, inner):
    where = inner
    for _ in range(levels):
        where = {"$and": [where, {"n": 1}]}
    return where


FAULTS = [
    ([], "", "a filter must be an object"),
    ("n", "", "a filter must be an object"),
    (7, "", "a filter must be an object"),
    ({"n": None}, "/n", "absence is asked with"),
    ({"n": [1]}, "/n", "must be a string, a number or a boolean"),
    ({"n": {}}, "/n", "at least one operator"),
    ({"n": {"$like": "x"}}, "/n/$like", "unknown operator '$like'"),
    ({"n": {"$eq ": 1}}, "/n/$eq ", "unknown operator"),
    ({"n": {"a": 1}}, "/n/a", "a nested field is written 'n.a'"),
    ({"$nor": [{"n": 1}]}, "/$nor", "unknown operator '$nor'"),
    ({"$eq": 1}, "/$eq", "unknown operator '$eq'"),
    ({"$and": []}, "/$and", "at least one filter"),
    ({"$or": {}}, "/$or", "at least one filter"),
    ({"$or": [{"n": 1}, 7]}, "/$or/1", "a filter must be an object"),
    ({"$or": [{"n": 1}, {"n": {"$gt": True}}]}, "/$or/1/n/$gt", "not a boolean"),
    ({"$not": []}, "/$not", "a filter must be an object"),
    ({"n": {"$not": 1}}, "/n/$not", "$not needs an object"),
    ({"n": {"$not": {"$gt": None}}}, "/n/$not/$gt", "not null"),
    ({"n": {"$in": 1}}, "/n/$in", "$in needs a list"),
    ({"n": {"$in": [1, None]}}, "/n/$in/1", "not null"),
    ({"n": {"$nin": [[1]]}}, "/n/$nin/0", "not a list"),
    ({"n": {"$eq": {"a": 1}}}, "/n/$eq", "not an object"),
    ({"n": {"$ne": None}}, "/n/$ne", "absence is asked with"),
    ({"n": {"$gt": [1]}}, "/n/$gt", "not a list"),
    ({"n": {"$exists": 1}}, "/n/$exists", "true or false"),
    ({"n": {"$exists": "true"}}, "/n/$exists", "true or false"),
    ({"n": {"$contains": [1]}}, "/n/$contains", "not a list"),
    ({"a/b~c": {"$x": 1}}, "/a~1b~0c/$x", "unknown operator"),
    (_nested(16, {"n": {"$eq": 1}}), "/$and/0" * 16 + "/n", "more than 16 nested"),
    ({"n": {"$in": list(range(10_001))}}, "/n/$in/10000", "more than 10000 values"),
    ({"$or": [{"n": number} for number in range(10_001)]}, "/$or", "more than 10000"),
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


WIDE = {
    "$in of 10,000": {"n": {"$in": [*range(1, 10_001)]}},
    "$nin of 10,000": {"n": {"$nin": [*range(1, 10_001)]}},
    "$or of 5,000": {"$or": [{"n": number} for number in range(1, 5_001)]},
    "$and of 300": {"$and": [{"n": {"$ne": -number}} for number in range(1, 301)]},
    "300 ranges": {"$or": [{"n": {"$gt": number, "$lt": number + 0.1}} for number in range(300)]},
    "1,200 fields": {f"field {number}": 1 for number in range(1_200)},
    "16 deep": _nested(14, {"n": {"$not": {"$eq": -1}}}),
}


@pytest.mark.parametrize("where", WIDE.values(), ids=WIDE)
def test_wide_and_deep_filters_within_the_bounds_are_answered(client, corpus, where):
    url = f"/collections/{corpus}"
    listed = client.post(f"{url}/documents/search", json={"where": where})
    assert listed.status_code == 200
    queried = client.post(f"{url}/query", json={"query_embedding": [1, 2], "where": where, "top_k": 100})
    assert {each["id"] for each in queried.json["results"]} == {each["id"] for each in listed.json["documents"]}
    negated = client.post(f"{url}/documents/search", json={"where": {"$not": where}})
    if negated.status_code == 200:
        assert negated.json["total"] == len(DOCUMENTS) - listed.json["total"]


@pytest.mark.parametrize("text", ["x", "{", "{'a': 1}", '{"a": NaN}', "[1,", "\x00"])
def test_a_query_string_that_is_not_json_is_refused(client, corpus, text):
    for route in ("documents", "documents/count", "facets"):
        answer = client.get(f"/collections/{corpus}/{route}", query_string={"where": text, "fields": "n"})
        assert answer.status_code == 400
        assert answer.json["error"] == "Invalid 'where' filter: must be valid JSON"
        assert answer.json["details"] == {"field": "where"}


@pytest.mark.parametrize("text", ["", "null", "{}", " {} "])
def test_an_empty_filter_matches_everything(client, corpus, text):
    answer = client.get(f"/collections/{corpus}/documents", query_string={"where": text})
    assert answer.json["total"] == len(DOCUMENTS)
