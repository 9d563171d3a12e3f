"""Which documents a filter matches is remembered for one revision, in bounded memory."""

import numpy as np
import pytest

from schemas.records import DocumentBatch, DocumentPatch
from schemas.where import parse_where
from wrapper.catalog import document_changes, writes
from wrapper.catalog.names import collection_writes
from wrapper.catalog.reads import all_positions
from wrapper.catalog.rows import find_collection
from wrapper.catalog.words.seen import ENTRY_BYTES, SeenPositions

ONE, TRUE = parse_where({"a": 1}), parse_where({"a": True})
DOCUMENTS = 8


@pytest.fixture
def filled(catalog):
    def fill(transaction):
        collection_writes.create_collection(transaction, "docs", {}, "l2")
        metadatas = [{"a": True if number % 4 == 0 else number % 2} for number in range(DOCUMENTS)]
        vectors = np.ones((DOCUMENTS, 1), dtype="<f4")
        ids = [f"d{number}" for number in range(DOCUMENTS)]
        writes.add_documents(transaction, "docs", DocumentBatch(ids, [""] * DOCUMENTS, metadatas, vectors))

    catalog.commit(fill)
    return catalog


def asked(catalog, seen, where):
    """Return (what is said, what is so)."""
    with catalog.read() as transaction:
        collection = find_collection(transaction, "docs")
        found = seen.of(transaction, collection, where)
        return sorted(found.tolist()), sorted(all_positions(transaction, collection, where))


def test_what_a_filter_matches_is_read_once_for_each_revision(filled):
    seen = SeenPositions()
    with filled.read() as transaction:
        collection = find_collection(transaction, "docs")
        assert seen.of(transaction, collection, ONE) is seen.of(transaction, collection, ONE)
    before, so = asked(filled, seen, ONE)
    assert before == so
    patch = DocumentPatch(metadata={"a": 5})
    filled.commit(lambda transaction: document_changes.patch_document(transaction, "docs", "d1", patch))
    after, so = asked(filled, seen, ONE)
    assert after == so != before


def test_filters_that_are_equal_in_python_are_told_apart(filled):
    assert ONE == TRUE
    seen = SeenPositions()
    for where in (ONE, TRUE, ONE):
        found, so = asked(filled, seen, where)
        assert found == so
    assert asked(filled, seen, ONE) != asked(filled, seen, TRUE)


def test_an_older_snapshot_is_answered_and_does_not_replace_a_newer_one(filled):
    seen = SeenPositions()
    with filled.read() as older:
        collection = find_collection(older, "docs")
        filled.commit(lambda transaction: writes.delete_documents(transaction, "docs", ids=["d1"]))
        newer, _ = asked(filled, seen, ONE)
        assert sorted(seen.of(older, collection, ONE).tolist()) == sorted(all_positions(older, collection, ONE))
        assert asked(filled, seen, ONE) == (newer, newer)


@pytest.mark.parametrize("most_bytes", [0, ENTRY_BYTES, ENTRY_BYTES + 100])
def test_what_does_not_fit_is_read_each_time(filled, most_bytes):
    seen = SeenPositions(most_bytes)
    for where in (ONE, TRUE, ONE, parse_where({"a": {"$exists": True}})):
        found, so = asked(filled, seen, where)
        assert found == so
