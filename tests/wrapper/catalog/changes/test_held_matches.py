"""Which documents a filter matches is remembered, and brought to later revisions by what changed, in bounded memory."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.records import DocumentPatch
from schemas.where import parse_where
from tests.wrapper.catalog.changes.test_feed import NAME, STEPS, Writer
from tests.wrapper.catalog.conftest import SQLITE
from tests.wrapper.documents import add, create, delete, numbered
from wrapper.catalog import document_changes
from wrapper.catalog.changes.held_matches import COUNTS_A_READING, ENTRY_BYTES, HeldMatches
from wrapper.catalog.filters import count
from wrapper.catalog.names import collection_writes
from wrapper.catalog.reads import all_positions
from wrapper.catalog.rows import find_collection

ONE, TRUE = parse_where({"a": 1}), parse_where({"a": True})
DOCUMENTS = 8
FILTERS = [
    parse_where(each)
    for each in (
        {"mark": {"$lt": 2}},
        {"odd": 1},
        {"$not": {"odd": 1}},
        {"$or": [{"mark": 3}, {"odd": 0}]},
        {"$and": [{"mark": {"$gte": 1}}, {"odd": 1}]},
        {"$text": {"$contains": "text 2"}},
        {"$text": {"$not_regex": "[01] of (a|b)"}},
    )
]


@pytest.fixture
def filled(catalog):
    create(catalog, "docs", metric="l2")
    metadatas = [{"a": True if number % 4 == 0 else number % 2} for number in range(DOCUMENTS)]
    add(catalog, "docs", numbered(DOCUMENTS), metadatas=metadatas)
    return catalog


def eager(most_bytes=1 << 20):
    """Return matches that are brought to another revision however few there are, and whatever changed."""
    return HeldMatches(most_bytes, least_held=0, most_changed=1_000)


def asked(catalog, held, where, name="docs"):
    """Return (what is said, what is so)."""
    with catalog.read() as transaction:
        collection = find_collection(transaction, name)
        so = sorted(all_positions(transaction, collection, where).tolist())
        assert held.count(transaction, collection, where) == len(so)
        return held.of(transaction, collection, where).tolist(), so


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, most_changed=st.sampled_from([0.5, 1_000]))
def test_what_is_said_is_so_whatever_is_done_to_the_collection(catalog, steps, most_changed):
    writer, held = Writer(catalog), HeldMatches(least_held=0, most_changed=most_changed)
    try:
        for kind, *what in steps:
            if kind == "follow":
                which, _ = what
                for where in (FILTERS[which], FILTERS[-1 - which % 2]):
                    told, so = asked(catalog, held, where, NAME)
                    assert told == so
            else:
                writer.do(kind, *what)
        for where in FILTERS * 2:
            told, so = asked(catalog, held, where, NAME)
            assert told == so
    finally:
        catalog.commit(lambda transaction: collection_writes.delete_collection(transaction, NAME))


@SQLITE
def test_what_a_filter_matches_is_read_once_and_brought_to_later_revisions(filled, monkeypatch):
    held = eager()
    before, so = asked(filled, held, ONE)
    assert before == so
    monkeypatch.setattr(HeldMatches, "_read", None)  # nothing is read anew from here on
    patch = DocumentPatch(metadata={"a": 5})
    filled.commit(lambda transaction: document_changes.patching("docs", "d1", patch).store(transaction))
    after, so = asked(filled, held, ONE)
    assert after == so != before
    patch = DocumentPatch(metadata={"a": 1})
    filled.commit(lambda transaction: document_changes.patching("docs", "d1", patch).store(transaction))
    delete(filled, "docs", "d3", "d4")
    last, so = asked(filled, held, ONE)
    assert last == so == before[:1] + before[2:]


@SQLITE
def test_what_is_counted_often_is_held(filled, monkeypatch):
    held = eager()
    with filled.read() as transaction:
        collection = find_collection(transaction, "docs")
        counted = [held.count(transaction, collection, ONE) for _ in range(COUNTS_A_READING)]
        monkeypatch.setattr("wrapper.catalog.changes.held_matches.count", None)  # the database is asked no more
        counted.append(held.count(transaction, collection, ONE))
        counted.append(DOCUMENTS - held.count(transaction, collection, parse_where({"$not": {"a": 1}})))
        assert set(counted) == {count(transaction, collection.key, ONE, DOCUMENTS)}


@SQLITE
def test_filters_that_are_equal_in_python_are_told_apart(filled):
    assert ONE == TRUE
    held = eager()
    for where in (ONE, TRUE, ONE):
        found, so = asked(filled, held, where)
        assert found == so
    assert asked(filled, held, ONE) != asked(filled, held, TRUE)


@SQLITE
def test_an_older_snapshot_is_answered_and_does_not_replace_a_newer_one(filled):
    held = eager()
    with filled.read() as older:
        collection = find_collection(older, "docs")
        delete(filled, "docs", "d1")
        newer, _ = asked(filled, held, ONE)
        assert held.of(older, collection, ONE).tolist() == sorted(all_positions(older, collection, ONE))
        assert held.count(older, collection, ONE) == len(newer) + 1
        assert asked(filled, held, ONE) == (newer, newer)


@pytest.mark.parametrize("most_bytes", [0, ENTRY_BYTES, ENTRY_BYTES + 100])
@SQLITE
def test_what_does_not_fit_is_read_each_time(filled, most_bytes):
    held = eager(most_bytes)
    for where in (ONE, TRUE, ONE, parse_where({"a": {"$exists": True}})):
        found, so = asked(filled, held, where)
        assert found == so
