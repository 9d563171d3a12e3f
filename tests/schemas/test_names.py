"""Names of collections, and as questions name them."""

import pytest

from schemas.errors import InvalidInputError
from schemas.names import are_within, asked_collections, check_collection_name, matches_pattern


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, None),
        ({"collections": None, "collection": None}, None),
        ({"collections": ["docs", "wiki-*", "*"]}, ("docs", "wiki-*", "*")),
        ({"collections": ("docs",)}, ("docs",)),
        ({"collection": "docs"}, ("docs",)),
        ({"collection": ("docs", "wiki-*")}, ("docs", "wiki-*")),
    ],
)
def test_collections_and_the_older_collection_say_the_same(given, asked):
    assert asked_collections(given) == asked


@pytest.mark.parametrize(
    ("given", "code", "details"),
    [
        ({"collections": ["docs"], "collection": "docs"}, "invalid_field", {"field": "collections"}),
        ({"collections": []}, "invalid_field", {"field": "collections"}),
        ({"collections": ["docs"] * 101}, "invalid_field", {"field": "collections"}),
        ({"collections": ["docs", "a*b"]}, "invalid_name", {"field": "collections", "index": 1}),
        ({"collections": ["docs", "**"]}, "invalid_name", {"field": "collections", "index": 1}),
        ({"collections": ["../etc*"]}, "invalid_name", {"field": "collections", "index": 0}),
        ({"collections": ["docs\n*"]}, "invalid_name", {"field": "collections", "index": 0}),
        ({"collection": "x"}, "invalid_name", {"field": "collection", "index": 0}),
    ],
)
def test_a_wrong_name_is_refused_by_field_and_position(given, code, details):
    with pytest.raises(InvalidInputError) as raised:
        asked_collections(given)
    assert (raised.value.code, raised.value.details) == (code, details)


def test_a_pattern_is_the_beginning_of_names():
    found = [name for name in ("docs-1", "docs-", "docs", "my-docs-1") if matches_pattern(name, "docs-*")]
    assert found == ["docs-1", "docs-"]
    assert matches_pattern("anything", "*")
    assert not matches_pattern("docs-1", "docs")


@pytest.mark.parametrize(
    ("names", "patterns", "within"),
    [
        ((), (), True),
        (("a",), (), False),
        (("a", "b-*"), ("b-*", "a"), True),
        (("a-1", "a-b-*"), ("a-*",), True),
        (("a-*",), ("a-b-*",), False),
        (("a-*",), ("a-", "a-1"), False),
        (("a", "a-*"), ("*",), True),
        (("*",), ("a*", "b"), False),
    ],
)
def test_what_names_stand_for_is_within_patterns_that_stand_for_all_of_it(names, patterns, within):
    assert are_within(names, patterns) is within


@pytest.mark.parametrize(
    "name", [None, "", 7, "ab", "a" * 513, "_ab", "ab_", "a..b", "a b", "abc\n", "äbc", "1.2.3.4", "a/b"]
)
def test_bad_names(name):
    with pytest.raises(InvalidInputError) as caught:
        check_collection_name(name)
    assert (caught.value.code, caught.value.details) == ("invalid_name", {"field": "name"})
