"""What comes over the wire: bodies and query strings in, records out; integers are kept to the digit or refused; documents and
embeddings as requests bring them."""

import base64
import struct
from itertools import count

import numpy as np
import orjson
import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import Limits, Scope
from schemas.documents import new_id, parse_document, parse_documents, parse_embedding
from schemas.errors import InvalidInputError
from schemas.records import OrderBy
from schemas.wire.body import load
from schemas.wire.chroma.paging import page_of
from schemas.wire.json_in import decode
from schemas.wire.keys import CHANGED_KEY, NEW_KEY, changed_grant
from schemas.wire.openai.paging import CURSOR_PAGE
from schemas.wire.storage.document import PAGE_ARGUMENTS, SHOWN_ARGUMENTS, WRITING_ARGUMENTS, Page, Search


@pytest.mark.parametrize(
    ("given", "limit"),
    [(1, 1), ("7", 7), ("+7", 7), (7.0, 7), (1000, 1000), (1001, 1000), ("9" * 30, 1000), (None, 100)],
)
def test_limits(given, limit):
    assert load(Page(), {"limit": given})["limit"] == limit


@pytest.mark.parametrize(("given", "second"), [("a,-b", "b"), (["a", "-b,c"], "b,c"), (" a , -b,a ", "b")])
def test_orders(given, second):
    assert load(Page(), {"order_by": given})["order_by"] == (OrderBy("a"), OrderBy(second, descending=True))


def test_searches_by_ids_have_a_page_of_their_own():
    assert load(Search(), {})["limit"] == 100
    assert load(Search(), {"ids": []})["limit"] == 1000
    assert load(Search(), {"ids": ["a"], "limit": 7})["limit"] == 7
    with pytest.raises(InvalidInputError, match="goes without ids"):
        load(Search(), {"ids": ["a"], "cursor": "x"})


def test_filters_and_parts_of_a_query_string():
    assert load(PAGE_ARGUMENTS, {}) == load(PAGE_ARGUMENTS, {"where": ""}) == load(PAGE_ARGUMENTS, {"where": "{}"})
    for wrong, said in (
        ("", "Invalid 'replace_where' filter: must be valid JSON"),
        ('{"a":1,"a":2}', "'a' is given twice"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            load(WRITING_ARGUMENTS, {"replace_where": wrong})
    assert load(SHOWN_ARGUMENTS, {}) == {"include": ()}
    assert load(SHOWN_ARGUMENTS, {"include": "text, embedding"}) == {"include": ("text", "embedding")}
    with pytest.raises(InvalidInputError) as caught:
        load(SHOWN_ARGUMENTS, {"include": "vectors"})
    assert caught.value.details == {"field": "include"}


KEY = {"name": "a", "scopes": ["read"]}
NO_TIMES = ("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "tomorrow", "", 7)
NO_RATES = (float("nan"), float("inf"), float("-inf"), 10**400)
ALL_SEEN = ({}, {"$or": [{}, {"a": 1}]}, {"$and": [{}, {}]}, {"a": {"$nin": []}}, {"$not": {"a": {"$in": []}}})
NO_KEYS = [
    *((NEW_KEY, {"expires_at": each}, r"^expires_at must be a time like 2027-01-31T12:00:00Z$") for each in NO_TIMES),
    (CHANGED_KEY, {"expires_at": "tomorrow"}, r"^expires_at must be a time like 2027-01-31T12:00:00Z$"),
    (NEW_KEY, {"expires_at": "2027-01-31T12:00:00"}, "must be a time with a zone"),
    *(
        (NEW_KEY, {"limits": {"requests_per_second": each}}, r"^limits.requests_per_second must be a finite number$")
        for each in NO_RATES
    ),
    (CHANGED_KEY, {"limits": {"burst": 5}}, r"^limits.burst must come with requests_per_second$"),
    (NEW_KEY, {"scopes": ["read", "metrics"], "collections": ["abc"]}, "has no list of collections$"),
    (NEW_KEY, {"scopes": ["write"], "where": {"a": 1}}, "Its only scope must be read$"),
    *((NEW_KEY, {"where": each}, r"^where must leave something out; '\*' stands for no filter$") for each in ALL_SEEN),
    (NEW_KEY, {"collections": [""]}, r"^Collection name is required\. The beginning of a name has '\*' after"),
]


@pytest.mark.parametrize(("schema", "given", "sentence"), NO_KEYS)
def test_what_no_key_can_have_is_refused_in_a_sentence(schema, given, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        load(schema, {**KEY, **given})


def test_a_burst_comes_with_its_rate_and_a_filter_is_lifted_by_a_star_and_not_by_null():
    both = {"burst": 5, "requests_per_second": 2}
    assert load(CHANGED_KEY, {"limits": both})["limits"] == Limits(**both)
    filtered = Grant(frozenset({Scope.READ}), where={"a": 1})
    assert changed_grant(filtered, load(CHANGED_KEY, {"where": None})) == filtered
    assert changed_grant(filtered, load(CHANGED_KEY, {"where": "*"})).where is None
    for some in ({"a": {"$ne": 1}}, {"$and": [{}, {"a": 1}]}, {"$not": {}}, {"$or": [{"a": {"$in": []}}, {"a": 1}]}):
        assert load(CHANGED_KEY, {"where": some}) == {"where": some}


LONG = "1" + "0" * 30
BEYOND = f"integer beyond 64 bits ({LONG})"


@pytest.mark.parametrize(
    "text",
    [
        *("1e30", "[1.5e300, -1e20]", "18446744073709551615", "-9223372036854775808", "0"),
        rf'{{"a": "{LONG}", "b": 1e20, "c\\\\": "\\\"{LONG}\\\\", "d": [{LONG}.5, -{LONG}e1, 1.{LONG}, 1e-{LONG}, "{LONG}"]}}',
    ],
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
        (rf'{{"\\\\": "\\\"{LONG}", "b\\\\": {LONG}}}', {"field": r"b\\"}),
        (f"[{'1.5,' * 250_000}{LONG}]", {"field": "250000"}),
        (f"{'[' * 50}{LONG}{']' * 50}", {"field": ".".join("0" * 50)}),
    ],
)
def test_a_longer_one_is_refused_where_it_is(text, details):
    with pytest.raises(InvalidInputError) as caught:
        decode(text)
    assert (caught.value.code, caught.value.details) == ("integer_too_large", details)
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: load(CURSOR_PAGE, {"limit": "9" * 30}), "limit must be at most 100"),
        (lambda: page_of({"offset": "9" * 30}), "offset must be a whole number from 0 to 2,147,483,647"),
        (lambda: page_of({"limit": str(2**31)}), "limit must be a whole number from 0 to 2,147,483,647"),
        (lambda: decode(f'{{"limit": {LONG}}}'), f"limit is an {BEYOND}"),
        (lambda: decode(f'{{"a": {{"top_k": {LONG}}}}}'), f"a.top_k is an {BEYOND}"),
        (lambda: decode(f"[{LONG}]", "where"), f"where.0 is an {BEYOND}: write it as a string, or as a float"),
    ],
)
def test_an_integer_that_is_out_of_range_is_told_its_range(read, said):
    with pytest.raises(InvalidInputError) as caught:
        read()
    assert caught.value.message == said


def test_vectors_are_floats_whatever_they_are_written_as():
    assert decode(f'{{"embedding": [{LONG}, 1]}}') == {"embedding": [1e30, 1]}
    assert decode(f'{{"query_embedding": [1, {LONG}]}}') == {"query_embedding": [1, 1e30]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("9" * 5_000, "The JSON has a number that no float of 64 bits is as large as: character 1"),
        ("[" * 1_025 + "]" * 1_025, "The JSON is nested deeper than 1,024 levels: character 1,026"),
    ],
)
def test_json_that_the_parser_does_not_read_is_not_called_invalid(text, sentence):
    with pytest.raises(InvalidInputError) as caught:
        decode(text)
    assert (caught.value.code, caught.value.message) == ("invalid_json", sentence)


@pytest.mark.parametrize("text", ["[" * 500, b"[1," * 500])
def test_brackets_that_nothing_closes_are_no_want_of_memory(text):
    with pytest.raises(orjson.JSONDecodeError, match=f"unexpected end of data.*char {len(text)}"):
        decode(text)


def test_long_vectors_are_looked_at_as_a_whole():
    numbers = np.random.default_rng(7).normal(size=100_000).tolist()
    assert decode(orjson.dumps({"documents": [{"embedding": numbers}]}))["documents"][0]["embedding"] == numbers


GOOD = {"text": "x", "embedding": [1.0, 2.0]}


def _encoded(*values):
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ([1, 2.5, -3], [1, 2.5, -3]),
        ([1e-45], [1e-45]),
        ([1e-60, 0], [0, 0]),
        ([3.4e38], [3.4e38]),
        ([2**63, 10**30], [2**63, 10**30]),
        (_encoded(1, 2.5, -3), [1, 2.5, -3]),
    ],
)
def test_an_embedding_is_float32(source, values):
    vector = parse_embedding(source)
    assert vector.dtype == np.dtype("<f4")
    assert vector.tolist() == np.array(values, dtype="<f4").tolist()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ([], "must not be empty"),
        ([1, "2"], "element 1"),
        ([1, 2, True], "element 2"),
        ([0, 1e39], "element 1"),
        ([0, float("nan")], "element 1"),
        (_encoded(1, float("nan")), "element 1"),
        ("AAAA", "whole number of float32"),
        ("AAAAAA==\n", "base64"),
        ("ünïcode!", "base64"),
        ({}, "array of numbers"),
        (None, "array of numbers"),
        ([1.0] * 65_537, "65,537 numbers"),
        (_encoded(*[1.0] * 65_537), "65,537 numbers"),
        (np.ones(65_537), "65,537 numbers"),
    ],
)
def test_an_invalid_embedding_is_refused(source, reason):
    with pytest.raises(InvalidInputError, match=reason) as caught:
        parse_embedding(source, field="query_embedding", index=3)
    assert caught.value.code == "invalid_embedding"
    assert caught.value.details == {"field": "query_embedding", "index": 3}


def test_a_batch_is_kept_column_by_column():
    numbers = count()
    batch = parse_documents(
        [{**GOOD, "metadata": {"a": 1}}, {**GOOD, "id": "given", "metadata": None}, {**GOOD, "id": None}],
        lambda: f"made-{next(numbers)}",
    )
    assert batch.ids == ["made-0", "given", "made-1"]
    assert batch.texts == ["x"] * 3
    assert batch.metadatas == [{"a": 1}, {}, {}]
    assert batch.embeddings.shape == (3, 2)
    assert (len(batch), batch.dimension) == (3, 2)


def test_a_line_of_a_stream_has_no_index():
    with pytest.raises(InvalidInputError) as caught:
        parse_document({"embedding": [1]}, None, new_id)
    assert caught.value.details == {"field": "text"}
