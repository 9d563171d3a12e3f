"""Values, paths and ids of any length mean what short ones mean."""

import numpy as np
import pytest

from schemas.records import GatherSpec, OrderBy
from schemas.where import EVERYTHING, parse_where
from tests.wrapper.documents import add, create
from wrapper.catalog import grouping, reads
from wrapper.catalog.rows import find_collection

LENGTHS = (1, 255, 256, 511, 512, 513, 70_000)
VALUES = sorted({letter * length + end for letter in "aé" for length in LENGTHS for end in ("", "a", "b", "\0")})
# Random, so that compression gains nothing.
RANDOM = np.random.default_rng(0).integers(0x4E00, 0x9FFF, (2, 20_000))
VALUES += ["".join(map(chr, row)) for row in RANDOM]
VALUES.sort()


@pytest.fixture
def filled(catalog):
    create(catalog, "long")
    texts = [f"text {value}" for value in VALUES]
    metadatas = [{"v": value, "list": [value, "x"], value: number} for number, value in enumerate(VALUES)]
    assert add(catalog, "long", VALUES, texts, metadatas).created == len(VALUES)
    assert add(catalog, "long", VALUES, texts, metadatas).unchanged == len(VALUES)
    with catalog.read() as transaction:
        yield transaction, find_collection(transaction, "long")


def _matching(filled, where, **arguments):
    transaction, collection = filled
    found = reads.page(transaction, collection, parse_where(where), limit=1_000, **arguments)
    assert found.total == len(found.documents)
    return [document.id for document in found.documents]


def test_equality_and_ranges_see_the_whole_value(filled):
    for number, value in enumerate(VALUES):
        assert _matching(filled, {"v": value}) == [value]
        assert _matching(filled, {"v": {"$lt": value}}) == VALUES[:number]
        assert _matching(filled, {"v": {"$lte": value}}) == VALUES[: number + 1]
        assert _matching(filled, {"v": {"$gt": value}}) == VALUES[number + 1 :]
        assert _matching(filled, {"v": {"$gte": value}, "list": {"$contains": "x"}}) == VALUES[number:]
        assert _matching(filled, {"list": {"$contains": value}}) == [value]
        assert _matching(filled, {value: number}) == [value]
        assert _matching(filled, {"v": {"$in": [value, "x", VALUES[0]]}, value: {"$exists": True}}) == [value]


def test_ids_are_told_apart_to_their_last_character(filled):
    transaction, collection = filled
    for value in VALUES:
        assert list(reads.by_ids(transaction, collection, [value, value + "?"])) == [value]
    assert set(reads.by_ids(transaction, collection, VALUES)) == set(VALUES)


@pytest.mark.parametrize("sort_at_most", [0, 5_000])
def test_order_sees_the_whole_value(filled, monkeypatch, sort_at_most):
    monkeypatch.setattr(reads, "SORT_AT_MOST", sort_at_most)
    assert _matching(filled, {}, order_by=(OrderBy("v", descending=True),)) == VALUES[::-1]
    transaction, collection = filled
    seen, cursor = [], None
    while True:
        page = reads.page(transaction, collection, EVERYTHING, limit=7, order_by=(OrderBy("v"),), cursor=cursor)
        seen += [document.id for document in page.documents]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == VALUES


def test_groups_and_facets_are_of_whole_values(filled):
    transaction, collection = filled
    assert grouping.distinct_values(transaction, collection, "v") == VALUES
    facet = grouping.facets(transaction, collection, EVERYTHING, ["list"], limit=1_000)[0]["list"]
    assert sorted(facet.values) == sorted([("x", len(VALUES)), *((value, 1) for value in VALUES)])
    hits = list(reads.by_ids(transaction, collection, VALUES).values())
    groups = grouping.gather(transaction, collection, hits, GatherSpec(by=("v",), order_by=(), limit=10))
    assert sorted(group.key for group in groups) == VALUES
    assert all(group.total == 1 for group in groups)
