"""Bodies and query strings: shapes in, records out."""

import pytest

from schemas.errors import InvalidInputError
from schemas.records import GatherSpec, OrderBy
from schemas.wire.body import load
from schemas.wire.fields import where_from_text
from schemas.wire.storage.document import (
    PAGE_ARGUMENTS,
    SHOWN_ARGUMENTS,
    WRITING_ARGUMENTS,
    Page,
    Search,
)
from schemas.wire.storage.query import Query


@pytest.mark.parametrize(
    ("given", "limit"),
    [(1, 1), ("7", 7), ("+7", 7), (7.0, 7), (1000, 1000), (1001, 1000), ("99999999999999999999", 1000), (None, 100)],
)
def test_limits(given, limit):
    assert load(Page(), {"limit": given})["limit"] == limit


@pytest.mark.parametrize(
    ("given", "order"),
    [
        ("a,-b", (OrderBy("a"), OrderBy("b", descending=True))),
        (["a", "-b,c"], (OrderBy("a"), OrderBy("b,c", descending=True))),
        (" a , -b ", (OrderBy("a"), OrderBy("b", descending=True))),
        ("a,a", (OrderBy("a"),)),
    ],
)
def test_orders(given, order):
    assert load(Page(), {"order_by": given})["order_by"] == order


def test_gather_becomes_a_record():
    loaded = load(Query(), {"query_embedding": [1], "gather": {"by": "a", "order_by": "-b", "limit": 7}})
    assert loaded["gather"] == GatherSpec(("a",), (OrderBy("b", descending=True),), 7)


def test_searches_by_ids_have_a_page_of_their_own():
    assert load(Search(), {})["limit"] == 100
    assert load(Search(), {"ids": []})["limit"] == 1000
    assert load(Search(), {"ids": ["a"], "limit": 7})["limit"] == 7
    with pytest.raises(InvalidInputError, match="goes without ids"):
        load(Search(), {"ids": ["a"], "cursor": "x"})


def test_filters_and_parts_of_a_query_string():
    assert load(PAGE_ARGUMENTS, {}) == load(PAGE_ARGUMENTS, {"where": ""}) == load(PAGE_ARGUMENTS, {"where": "{}"})
    assert load(WRITING_ARGUMENTS, {"replace_where": ""})["replace_where"] is None
    with pytest.raises(InvalidInputError, match="Invalid 'replace_where' filter: must be valid JSON"):
        where_from_text("x", "replace_where")
    assert load(SHOWN_ARGUMENTS, {}) == {"include": ()}
    assert load(SHOWN_ARGUMENTS, {"include": "text, embedding"}) == {"include": ("text", "embedding")}
    with pytest.raises(InvalidInputError) as caught:
        load(SHOWN_ARGUMENTS, {"include": "vectors"})
    assert caught.value.details == {"field": "include"}
