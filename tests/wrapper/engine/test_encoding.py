import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import InvalidInputError
from wrapper.engine.encoding import (
    JSON_KEY,
    LISTS_KEY,
    MOST_ELEMENTS,
    MOST_FIELDS,
    decode_metadata,
    encode_collection_metadata,
    encode_metadata,
    removable,
)

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
KEYS = st.text() | st.sampled_from(["", "#a", "$a", "chroma:document", "hnsw:space", JSON_KEY, LISTS_KEY, "rag:none"])
OBJECTS = st.dictionaries(KEYS, VALUES)

NATIVE = [
    {"a": "text", "b": True, "c": 3, "d": 1.0, "e": -(2**63), "f": 2**63 - 1, "ü\x00": "\x00"},
    {"when": 1732178643.145162, "share": 0.1, "huge": 1e22, "tiny": 1.5e-20},
]
NOT_NATIVE = [
    *({"a": value} for value in (None, [], [1, 2.0], [1, True], [[1]], {"b": 1}, 2**63, [2**63], "\ud800")),
    *({key: 1} for key in ("", "#a", "$a")),
    *({"chroma:document": "x"}, {"hnsw:space": "l2"}, {JSON_KEY: "{}"}, {LISTS_KEY: False}),
]


def exactly(value):
    """Return a text that differs for 1, 1.0, True and -0.0."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(OBJECTS)
def test_what_was_given_is_what_is_read(metadata):
    for encode in (encode_metadata, encode_collection_metadata):
        assert exactly(decode_metadata(encode(metadata))) == exactly(metadata)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(OBJECTS)
def test_only_what_chroma_holds_is_sent(metadata):
    for key, value in (encode_metadata(metadata) or {}).items():
        assert key
        assert not key.startswith(("#", "$", "chroma:", "hnsw:"))
        items = value if isinstance(value, list) else [value]
        assert len({type(item) for item in items}) == 1
        assert all(isinstance(item, str | bool | float) or -(2**63) <= item < 2**63 for item in items)
    assert not any(isinstance(value, list) for value in (encode_collection_metadata(metadata) or {}).values())


@pytest.mark.parametrize("metadata", NATIVE)
def test_what_chroma_holds_goes_in_as_it_is(metadata):
    assert encode_metadata(metadata) == metadata


def test_lists_go_in_as_they_are_and_are_marked():
    metadata = {"a": ["x", "y"], "b": [1, 2], "c": [1.5, 2.0], "d": [True, False], "e": 1}
    encoded = encode_metadata(metadata)
    assert encoded == {**metadata, LISTS_KEY: True}
    assert decode_metadata(encoded) == metadata


@pytest.mark.parametrize("metadata", NOT_NATIVE)
def test_what_it_does_not_hold_goes_in_as_text_beside_the_rest(metadata):
    encoded = encode_metadata({"kept": 1, **metadata})
    assert encoded.keys() == {"kept", JSON_KEY}
    assert decode_metadata(encoded) == {"kept": 1, **metadata}


@pytest.mark.parametrize("value", [123456789.12345679, -0.0, [0.5, 123456789.12345679], 1e23])
def test_a_number_chroma_may_round_is_sent_and_kept_as_text(value):
    encoded = encode_metadata({"a": value})
    assert encoded["a"] == value
    assert exactly(decode_metadata({**encoded, "a": 0.0})) == exactly({"a": value})


@pytest.mark.parametrize(
    ("metadata", "sent"),
    [
        ({f"k{n}": n for n in range(MOST_FIELDS + 1)}, {f"k{n}": n for n in range(MOST_FIELDS)}),
        ({"a": [1] * (MOST_ELEMENTS + 1), "b": 2}, {"b": 2}),
        ({"a": [1] * 3_000, "b": [2] * 3_000, "c": [3] * 2_000}, {"a": [1] * 3_000, "c": [3] * 2_000, LISTS_KEY: True}),
    ],
)
def test_more_than_a_record_may_have_is_kept_as_text(metadata, sent):
    encoded = encode_metadata(metadata)
    assert decode_metadata(encoded) == metadata
    assert encoded.pop(JSON_KEY)
    assert encoded == sent


def test_no_metadata_is_nothing_and_lists_are_not_sent_for_a_collection():
    assert encode_metadata({}) is None
    assert encode_collection_metadata({}) is None
    assert decode_metadata(None) == {}
    assert encode_collection_metadata({"a": ["x"]}).keys() == {JSON_KEY}


@pytest.mark.parametrize("value", [math.nan, math.inf, {"deep": -math.inf}])
def test_numbers_that_json_does_not_have_are_refused(value):
    with pytest.raises(InvalidInputError, match="finite"):
        encode_metadata({"a": value})


@pytest.mark.parametrize("text", ["no json", "[1]", 7])
def test_another_clients_entry_of_our_key_is_left_alone(text):
    assert decode_metadata({JSON_KEY: text, "a": 1}) == {JSON_KEY: text, "a": 1}


def test_stale_keys_are_those_chroma_may_hold_and_our_own():
    assert removable([]) == []
    assert removable({"a": 1, "": 2, "#b": 3, "chroma:c": 4}) == ["a", JSON_KEY, LISTS_KEY]
