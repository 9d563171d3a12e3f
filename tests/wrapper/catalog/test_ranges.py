"""A range between two bounds of a field is read as one, whatever is below and above it."""

import sqlite3
from contextlib import closing

import pytest

from schemas.where import parse_where
from tests.properties.catalogs import open_catalog
from tests.wrapper.documents import add, create, numbered
from wrapper.catalog import filters
from wrapper.catalog.rows import find_collection

COUNT, WANTED = 4_000, 10
PER_DOCUMENT = 100
"""More steps of SQLite's machine than a document takes that is read."""


@pytest.mark.parametrize(
    "where",
    [
        {"n": {"$gte": COUNT // 2, "$lt": COUNT // 2 + WANTED}},
        {"$and": [{"n": {"$lte": COUNT // 2 + WANTED - 1}}, {"n": {"$gt": 0}}, {"n": {"$gt": COUNT // 2 - 1}}]},
        {"n": {"$gte": COUNT // 2, "$lt": COUNT // 2 + WANTED}, "half": {"$gte": 0}},
    ],
)
def test_what_is_outside_of_a_range_is_not_read(tmp_path, where):
    path = tmp_path / "catalog.sqlite"
    catalog = open_catalog(path)
    create(catalog, "docs")
    add(catalog, "docs", numbered(COUNT), metadatas=[{"n": n, "half": n % 2} for n in range(COUNT)])
    with catalog.read() as transaction:
        collection = find_collection(transaction, "docs")
        listing = filters.positions(transaction, collection.key, parse_where(where))
    catalog.close()
    steps = 0

    def count():
        nonlocal steps
        steps += 1

    with closing(sqlite3.connect(path)) as connection:
        connection.set_progress_handler(count, 1)
        found = connection.execute(listing.text, listing.parameters).fetchall()
    assert len(found) == WANTED
    assert steps < WANTED * PER_DOCUMENT
