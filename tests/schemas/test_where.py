"""The tree that a filter becomes, and the bounds of the grammar."""

import pytest

from schemas.errors import InvalidFilterError
from schemas.where import (
    EVERYTHING,
    MAX_DEPTH,
    MAX_VALUES,
    And,
    Contains,
    Equals,
    Exists,
    In,
    Not,
    Or,
    Ordered,
    parse_where,
)


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        (None, EVERYTHING),
        ({}, EVERYTHING),
        ({"a": 1}, Equals("a", 1)),
        ({"a": {"$eq": True}}, Equals("a", True)),
        ({"a": 1, "b": "x"}, And((Equals("a", 1), Equals("b", "x")))),
        ({"a": {"$gt": 1, "$lte": 2}}, And((Ordered("a", "$gt", 1), Ordered("a", "$lte", 2)))),
        ({"a": {"$ne": 1}}, Not(Equals("a", 1))),
        ({"a": {"$in": []}}, In("a", ())),
        ({"a": {"$nin": [1, "x"]}}, Not(In("a", (1, "x")))),
        ({"a": {"$contains": 1}}, Contains("a", 1)),
        ({"a": {"$not_contains": 1}}, Not(Contains("a", 1))),
        ({"a": {"$exists": True}}, Exists("a")),
        ({"a": {"$exists": False}}, Not(Exists("a"))),
        ({"a": {"$not": {"$gt": 1}}}, Not(Ordered("a", "$gt", 1))),
        ({"$and": [{"a": 1}]}, Equals("a", 1)),
        ({"$or": [{"a": 1}, {}]}, Or((Equals("a", 1), EVERYTHING))),
        ({"$not": {"a": 1}}, Not(Equals("a", 1))),
        ({"": 1, "a.b": 2}, And((Equals("", 1), Equals("a.b", 2)))),
    ],
)
def test_filters_become_trees(source, tree):
    assert parse_where(source) == tree


def _nested(levels):
    where = {"a": 1}
    for _ in range(levels):
        where = {"$not": where}
    return where


def test_the_bound_of_depth():
    parse_where(_nested(MAX_DEPTH))
    with pytest.raises(InvalidFilterError) as caught:
        parse_where(_nested(MAX_DEPTH + 1))
    assert caught.value.details == {"field": "where", "pointer": "/$not" * (MAX_DEPTH + 1), "limit": MAX_DEPTH}


@pytest.mark.parametrize(
    "wide",
    [
        lambda number: {"a": {"$in": [1] * number}},
        lambda number: {f"field {each}": 1 for each in range(number)},
        lambda number: {"$or": [{} for _ in range(number)]},
        lambda number: {"$and": [{"a": {"$nin": [1] * (number - 2)}}, {}]},
    ],
)
def test_the_bound_of_width(wide):
    parse_where(wide(MAX_VALUES))
    with pytest.raises(InvalidFilterError) as caught:
        parse_where(wide(MAX_VALUES + 1))
    assert caught.value.details["limit"] == MAX_VALUES


@pytest.mark.parametrize(
    ("source", "pointer"),
    [
        ([], ""),
        ({"a": {"b/c~": {"$eq": 1}}}, "/a/b~1c~0"),
        ({"$or": [{"a": 1}, {"a": {"$in": [1, None]}}]}, "/$or/1/a/$in/1"),
        ({"$and": [{"$not": {"a": {"$gt": None}}}]}, "/$and/0/$not/a/$gt"),
        ({"$exists": True}, "/$exists"),
    ],
)
def test_faults_carry_a_json_pointer(source, pointer):
    with pytest.raises(InvalidFilterError) as caught:
        parse_where(source)
    assert caught.value.details["pointer"] == pointer
    assert caught.value.details["field"] == "where"


def test_an_unknown_operator_lists_those_that_are_known():
    with pytest.raises(InvalidFilterError) as caught:
        parse_where({"a": {"$like": "x"}})
    assert "$contains" in caught.value.details["allowed"]
