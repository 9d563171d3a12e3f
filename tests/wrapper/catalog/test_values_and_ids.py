"""Ids are any text, values, paths and ids of any length mean what short ones mean, and a range is read as one."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from schemas.where import parse_where
from tests.properties.catalogs import open_catalog
from tests.wrapper.documents import add, collection_of, create, delete, numbered
from wrapper.catalog import filters, reads
from wrapper.catalog.index_state import outbox
from wrapper.catalog.rows import find_collection

AWKWARD = ["a", "a\x00b", "a\x00", "\x00", "A", " a", "é", "e\u0301", "𝔸", "1", "1.0", '"', "\\u0000", "/", "null"]
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_ids_are_told_apart_to_their_last_character(filled):
    transaction, collection = filled
    for value in VALUES:
        assert list(reads.by_ids(transaction, collection, [value, value + "?"])) == [value]
    assert set(reads.by_ids(transaction, collection, VALUES)) == set(VALUES)


@pytest.fixture
def awkward(catalog):
    create(catalog, "awkward")
    assert add(catalog, "awkward", AWKWARD).created == len(AWKWARD)
    return catalog


def _state(catalog):
    with catalog.read() as transaction:
        return find_collection(transaction, "awkward").revision, outbox.newest(transaction)


def test_each_is_found_alone_and_with_the_others(awkward):
    with awkward.read() as transaction:
        collection = find_collection(transaction, "awkward")
        for each in AWKWARD:
            assert list(reads.by_ids(transaction, collection, [each])) == [each]
        assert set(reads.by_ids(transaction, collection, AWKWARD)) == set(AWKWARD)
        assert len(reads.vectors_of(transaction, collection, AWKWARD)[0]) == len(AWKWARD)


def test_deleting_one_deletes_no_other_and_unknown_ones_are_passed_over(awkward):
    before = _state(awkward)
    again = add(awkward, "awkward", AWKWARD)
    assert (again.unchanged, (again.revision, again.outbox_id)) == (len(AWKWARD), before)
    unknown = delete(awkward, "awkward", "b", "a\x00c", "a\x00b\x00", "")
    assert (unknown.deleted, (unknown.revision, unknown.outbox_id)) == (0, before)
    for left, each in enumerate(reversed(AWKWARD)):
        assert delete(awkward, "awkward", each).deleted == 1
        assert collection_of(awkward, "awkward").count == len(AWKWARD) - left - 1


COUNT, WANTED = 4_000, 10
PER_DOCUMENT = 100
"""More steps of SQLite's machine than a document takes that is read."""
RANGES = [
    {"n": {"$gte": COUNT // 2, "$lt": COUNT // 2 + WANTED}},
    {"$and": [{"n": {"$lte": COUNT // 2 + WANTED - 1}}, {"n": {"$gt": 0}}, {"n": {"$gt": COUNT // 2 - 1}}]},
    {"n": {"$gte": COUNT // 2, "$lt": COUNT // 2 + WANTED}, "half": {"$gte": 0}},
]


@pytest.mark.slow
def test_what_is_outside_of_a_range_is_not_read(tmp_path):
    """A range between two bounds of a field is read as one, whatever is below and above it."""
    path = tmp_path / "catalog.sqlite"
    catalog = open_catalog(path)
    create(catalog, "docs")
    add(catalog, "docs", numbered(COUNT), metadatas=[{"n": n, "half": n % 2} for n in range(COUNT)])
    with catalog.read() as transaction:
        key = find_collection(transaction, "docs").key
        listings = [filters.positions(transaction, key, parse_where(where)) for where in RANGES]
    catalog.close()
    for where, listing in zip(RANGES, listings, strict=True):
        steps = []
        with closing(sqlite3.connect(path)) as connection:
            connection.set_progress_handler(lambda steps=steps: steps.append(1), 1)
            found = connection.execute(listing.text, listing.parameters).fetchall()
        assert len(found) == WANTED, where
        assert len(steps) < WANTED * PER_DOCUMENT, where
