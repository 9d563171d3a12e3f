"""A catalogue of an earlier release, whose word indexes have no headings or no tags, is indexed anew when it is opened."""

from __future__ import annotations

import numpy as np
import pytest

from schemas.records import DocumentBatch
from schemas.where import EVERYTHING
from tests.support.old_words import forget_words
from wrapper.catalog import word_indexing, writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.grouping import text_search
from wrapper.catalog.migrations import migrate
from wrapper.catalog.rows import find_collection

DOCUMENTS = 5
NAMES = ("books", "papers", "empty")


@pytest.fixture
def old(catalog, open_database, monkeypatch):
    """`old(interrupted_after=0, version=3)`: the same database as an earlier release left it, or as an interrupted
    opening left it after so many batches; opened by this release. Until version 4 there were no headings, until 5 no
    tags, until 6 a table for each collection on SQLite."""
    monkeypatch.setattr(word_indexing, "DOCUMENTS_AT_ONCE", 2)

    def fill(transaction):
        for name in ("books", "papers"):
            writes.create_collection(transaction, name, {}, "cosine")
            batch = DocumentBatch(
                [str(number) for number in range(DOCUMENTS)],
                [f"text {number}" for number in range(DOCUMENTS)],
                [{"title": f"title{number}", "tags": [f"tag{number}", "tagged"]} for number in range(DOCUMENTS)],
                np.ones((DOCUMENTS, 2), dtype="<f4"),
            )
            writes.add_documents(transaction, name, batch)
        writes.create_collection(transaction, "empty", {}, "cosine")

    def make(interrupted_after=0, version=3):
        catalog.commit(fill)
        catalog.commit(lambda transaction: forget_words(transaction, version, NAMES, interrupted_in="papers"))
        database = open_database()
        database.migrate(migrate)
        again = Catalog(database)
        for _ in range(interrupted_after):
            again.commit(word_indexing.index_next)
        again.open()
        return again

    return make


def _found(catalog, name, query):
    with catalog.read() as transaction:
        found, _ = text_search(transaction, find_collection(transaction, name), query, EVERYTHING, limit=10)
    return [match.document.id for match in found]


@pytest.mark.parametrize("interrupted_after", [0, 1, 5])
@pytest.mark.parametrize("version", [3, 4, 5])
def test_every_document_is_found_by_its_title_its_tags_and_its_text(old, interrupted_after, version):
    catalog = old(interrupted_after, version)
    everyone = [str(number) for number in range(DOCUMENTS)]
    for name in ("books", "papers"):
        for word in ("title", "tag"):
            assert [_found(catalog, name, f"{word}{number}") for number in range(DOCUMENTS)] == [[n] for n in everyone]
        assert sorted(_found(catalog, name, "text")) == everyone
        assert sorted(_found(catalog, name, "tagged")) == everyone
    assert _found(catalog, "empty", "text") == []


def test_what_was_indexed_anew_is_removed_and_replaced_like_the_rest(old):
    catalog = old()
    catalog.commit(lambda transaction: writes.delete_documents(transaction, "books", ids=["1"]))
    batch = DocumentBatch(["2"], ["text 2"], [{"title": "other"}], np.ones((1, 2), dtype="<f4"))
    catalog.commit(lambda transaction: writes.add_documents(transaction, "books", batch))
    assert [_found(catalog, "books", query) for query in ("title1", "title2", "other")] == [[], [], ["2"]]


def test_it_is_done_once(old):
    catalog = old()
    with catalog.read() as transaction:
        assert not word_indexing.is_due(transaction)
