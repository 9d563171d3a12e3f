"""`GET metadata-values` and `GET facets` return the values of fields, and `GET projection` places documents in a plane, for a
map."""

import json

import pytest

METADATAS = [
    {"kind": "a", "page": 2, "done": True, "tags": ["x", "y"], "at": {"line": 7}},
    {"kind": "a", "page": 10, "done": False, "tags": ["x"], "at": {"line": 9}},
    {"kind": "b", "page": 2.5, "tags": []},
    {"kind": "B", "page": 2, "mixed": 1},
    {"kind": "b", "mixed": "1"},
    {"kind": "b", "mixed": True},
    {"kind": None, "mixed": 1.0},
]


@pytest.fixture(scope="module")
def name(shared_collection):
    return shared_collection(
        [
            {"id": f"doc-{number}", "text": "", "metadata": metadata, "embedding": [1, number]}
            for number, metadata in enumerate(METADATAS)
        ]
    )


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("kind", ["B", "a", "b"]),
        ("page", ["10", "2", "2.5"]),
        ("tags", ["x", "y"]),
        ("at.line", ["7", "9"]),
        ("mixed", ["1", "true"]),
        ("'; --", []),
    ],
)
def test_metadata_values_are_sorted_distinct_strings(client, name, field, values):
    answer = client.get(f"/collections/{name}/metadata-values", query_string={"field": field})
    assert (answer.status_code, answer.json) == (200, {"field": field, "values": values, "count": len(values)})


@pytest.fixture
def facets(client, name):
    def facets(fields, where=None, **arguments):
        if where is not None:
            arguments["where"] = json.dumps(where)
        return client.get(f"/collections/{name}/facets", query_string={"fields": fields, **arguments})

    return facets


def _values(*pairs):
    return [{"value": value, "count": count} for value, count in pairs]


def test_several_facets_among_the_matches_of_a_filter(facets):
    answer = facets("kind, page,kind", {"page": {"$lt": 3}}).json
    assert answer["total"] == 3
    assert answer["facets"] == {
        "kind": {"values": _values(("B", 1), ("a", 1), ("b", 1)), "distinct": 3, "min": "B", "max": "b"},
        "page": {"values": _values((2, 2), (2.5, 1)), "distinct": 2, "min": 2, "max": 2.5},
    }


PLACED = [
    {"id": "a", "text": "one", "metadata": {"kind": "pdf", "page": 1, "tags": ["y", "x"]}, "embedding": [1, 0, 0]},
    {"id": "b", "text": "two", "metadata": {"kind": "pdf", "page": 2.5, "tags": []}, "embedding": [0.9, 0.1, 0]},
    {"id": "c", "text": "three", "metadata": {"kind": "md", "at": {"line": 7}}, "embedding": [-1, 0, 0.2]},
]


@pytest.fixture(scope="module")
def placed(shared_collection):
    return shared_collection(PLACED)


@pytest.fixture
def projection(client, placed):
    def projection(where=None, **arguments):
        if where is not None:
            arguments["where"] = json.dumps(where)
        return client.get(f"/collections/{placed}/projection", query_string=arguments)

    return projection


def test_near_vectors_lie_near_each_other(projection, placed):
    answer = projection().json
    x = answer["points"].pop("x")
    assert len(answer["points"].pop("y")) == 3
    assert abs(x[0] - x[1]) < 0.2 < 1.7 < abs(x[0] - x[2]) <= 2
    explained = answer.pop("explained")
    assert 0.9 < sum(explained) <= 1
    assert answer == {
        "collection": placed,
        "revision": 2,
        "method": "pca",
        "total": 3,
        "sampled": False,
        "points": {"ids": ["a", "b", "c"]},
        "field": None,
        "scale": None,
        "categories": [],
    }


def test_only_what_matches_is_placed(projection):
    answer = projection({"kind": "pdf"}, field="page").json
    assert (answer["total"], answer["points"]["ids"], answer["points"]["value"]) == (2, ["a", "b"], [1, 2.5])
    # On a line, as far from each other as the map is wide.
    assert [sorted(answer["points"]["x"]), answer["points"]["y"]] == [[-1, 1], [0, 0]]
    assert answer["explained"] == [1, 0]
