"""A range between two bounds of a field is read as one, whatever is below and above it."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from schemas.records import DocumentBatch
from schemas.where import parse_where
from wrapper.catalog import filters, writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection
from wrapper.catalog.sqlite.database import SQLiteDatabase

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
    catalog = Catalog(SQLiteDatabase(path))
    catalog.open()
    ids = [f"d{n}" for n in range(COUNT)]
    metadatas = [{"n": n, "half": n % 2} for n in range(COUNT)]
    batch = DocumentBatch(ids, [""] * COUNT, metadatas, np.ones((COUNT, 2), dtype="<f4"))

    def fill(transaction):
        collection_writes.create_collection(transaction, "docs", {}, "cosine")
        writes.add_documents(transaction, "docs", batch)

    catalog.commit(fill)
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
