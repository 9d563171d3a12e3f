"""Metadata objects and merge patches."""

from copy import deepcopy

import pytest

from schemas.errors import InvalidInputError
from schemas.metadata import (
    MAX_COLLECTION_BYTES,
    MAX_FIELDS,
    MAX_KEY_BYTES,
    MAX_LIST_ELEMENTS,
    MAX_METADATA_DEPTH,
    MAX_VALUES,
    check_collection_metadata,
    check_metadata,
    merge_patch,
)


def _deep(levels):
    value = {}
    for level in range(levels - 1):
        value = {"a": value} if level % 2 else {"a": [value]}
    return value


def test_the_bound_of_depth():
    nested = {}
    for _ in range(MAX_METADATA_DEPTH - 1):
        nested = {"a": nested}
    check_metadata(nested)
    with pytest.raises(InvalidInputError, match="nested deeper than 32 levels"):
        check_metadata({"a": nested})
    with pytest.raises(InvalidInputError):
        check_metadata(_deep(400))


def _fields(number):
    return {f"k{place}": place for place in range(number)}


@pytest.mark.parametrize(
    "metadata",
    [
        _fields(MAX_FIELDS),
        {"a": _fields(MAX_FIELDS - 1)},
        {"a": list(range(MAX_LIST_ELEMENTS))},
        {"k" * MAX_KEY_BYTES: 1, "é" * (MAX_KEY_BYTES // 2): 1},
        {"a": [_fields(MAX_FIELDS), _fields(MAX_FIELDS)]},
        {"a": [1, {"b": None}]},
    ],
)
def test_metadata_up_to_its_bounds_is_taken_and_null_is_an_empty_object(metadata):
    assert check_metadata(metadata) is metadata
    assert check_metadata(None) == {}


@pytest.mark.parametrize(
    ("metadata", "sentence", "details"),
    [
        (_fields(MAX_FIELDS + 1), "2001 fields", {"limit": MAX_FIELDS}),
        ({"a": {"b": _fields(MAX_FIELDS - 1)}}, "2001 fields", {"limit": MAX_FIELDS}),
        ({"tags": ["x"] * 2001}, "'tags' in metadata has 2001", {"limit": MAX_LIST_ELEMENTS, "path": "tags"}),
        ({"a": [{"b": {"c": [0] * 2001}}]}, "has 2001 elements", {"limit": MAX_LIST_ELEMENTS, "path": "a.b.c"}),
        ({"k" * 513: 1}, "more than 512 bytes", {"limit": MAX_KEY_BYTES, "path": "k" * 60}),
        ({"a": [{"é" * 257: 1}]}, "more than 512 bytes", {"limit": MAX_KEY_BYTES, "path": "é" * 60}),
        ({f"l{n}": [0] * 2000 for n in range(10)}, "20010 fields and elements", {"limit": MAX_VALUES}),
        *((no_object, "metadata", {}) for no_object in ([], "x", 7, True, 0.5)),
    ],
)
def test_metadata_beyond_its_bounds_or_no_object_is_refused_with_document_and_field(metadata, sentence, details):
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        check_metadata(metadata, index=3)
    assert caught.value.code == "invalid_metadata"
    assert caught.value.details == {"field": "metadata", "index": 3, **details}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [  # RFC 7396, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_is_the_rfcs_and_leaves_its_operands_alone(target, patch, result):
    given = deepcopy((target, patch))
    assert merge_patch(target, patch) == result
    assert (target, patch) == given


def test_the_bound_of_a_collections_metadata_in_bytes():
    """The engine reads it on each write and returns it with each vector query, so it must stay small."""
    room = MAX_COLLECTION_BYTES - len('{"a":""}')
    check_collection_metadata({"a": "x" * room})
    with pytest.raises(InvalidInputError, match=r"has 65,537 bytes, 65,536 are allowed") as caught:
        check_collection_metadata({"a": "x" * (room + 1)})
    assert caught.value.details == {"field": "metadata", "limit": MAX_COLLECTION_BYTES}
