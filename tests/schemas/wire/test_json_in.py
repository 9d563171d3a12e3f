"""Integers are kept to the digit or refused."""

import numpy as np
import orjson
import pytest

from schemas.errors import InvalidInputError
from schemas.wire.json_in import decode

LONG = "1" + "0" * 30


@pytest.mark.parametrize(
    "text",
    ["1e30", "[1.5e300, -1e20]", "18446744073709551615", "-9223372036854775808", f'{{"a": "{LONG}", "b": 1e20}}', "0"],
)
def test_floats_and_integers_within_64_bits_are_taken(text):
    assert decode(text) == orjson.loads(text)


@pytest.mark.parametrize(
    ("text", "details"),
    [
        ("18446744073709551616", {}),
        (f'{{"metadata": {{"n": {LONG}}}}}', {"field": "metadata.n"}),
        (f'{{"metadata": {{"n": [1, {{"m": -{LONG}}}]}}}}', {"field": "metadata.n.1.m"}),
        (f'{{"documents": [{{}}, {{"metadata": {{"n": {LONG}}}}}]}}', {"field": "metadata.n", "index": 1}),
        (f'{{"where": {{"n": {{"$gt": {LONG}}}}}}}', {"field": "where.n.$gt"}),
        (f'{{"a": {LONG}, "b": {LONG}}}', {"field": "a"}),
        (f'{{"a": [1.5, {LONG}]}}', {"field": "a.1"}),
        (f'{{"a": ["x", {LONG}]}}', {"field": "a.1"}),
        ("9" * 300, {}),
    ],
)
def test_a_longer_one_is_refused_where_it_is(text, details):
    with pytest.raises(InvalidInputError) as caught:
        decode(text)
    assert (caught.value.code, caught.value.details) == ("integer_too_large", details)
    assert len(caught.value.message) < 200


def test_a_query_string_names_its_parameter():
    with pytest.raises(InvalidInputError) as caught:
        decode(f'{{"n": {LONG}}}', "where")
    assert caught.value.details == {"field": "where.n"}


def test_vectors_are_floats_whatever_they_are_written_as():
    assert decode(f'{{"embedding": [{LONG}, 1]}}') == {"embedding": [1e30, 1]}
    assert decode(f'{{"query_embedding": [1, {LONG}]}}') == {"query_embedding": [1, 1e30]}


def test_a_number_that_the_parser_takes_for_infinite_is_no_json():
    with pytest.raises(orjson.JSONDecodeError):
        decode("9" * 5_000)


def test_deep_nesting_is_refused_and_not_run_into():
    with pytest.raises(InvalidInputError, match="nested too deep"):
        decode("[" * 1_020 + LONG + "]" * 1_020)


def test_long_vectors_are_looked_at_as_a_whole():
    numbers = np.random.default_rng(7).normal(size=100_000).tolist()
    assert decode(orjson.dumps({"documents": [{"embedding": numbers}]}))["documents"][0]["embedding"] == numbers
