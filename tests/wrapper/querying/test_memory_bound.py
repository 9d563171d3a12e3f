"""The memory that held vectors may take: what was written since a base counts as the base does."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tests.wrapper import documents
from wrapper import querying
from wrapper.catalog.rows import find_collection
from wrapper.querying.code_files import CodeFiles
from wrapper.querying.held_vectors import HeldVectors

COUNT, DIMENSION, MOST = 200, 16, 105_000
SPACE = tracemalloc.Filter(inclusive=True, filename_pattern=f"{Path(querying.__file__).parent}/*", all_frames=True)

OBJECTS = 16_000
"""The bytes of objects that no document adds to."""


def add(catalog, name, count=COUNT, prefix="d"):
    documents.add(catalog, name, documents.numbered(count, prefix), vectors=documents.normal(count, DIMENSION, count))


@pytest.fixture
def catalog(empty_catalog):
    """Collections `one`, `two` and `three` with 200 documents each."""
    documents.create(empty_catalog, "one", "two", "three", metric="l2")
    for name in ("one", "two", "three"):
        add(empty_catalog, name)
    return empty_catalog


def ask(held, catalog, name, *, pays=False):
    """Return the codes of a collection after a query has looked at all of them."""
    with catalog.read() as transaction:
        collection = find_collection(transaction, name)
        found = held.of(transaction, collection, saves_ms=50.0 if pays else 0.0, reading_ms=50.0)
        if found is not None:
            code = found.base.codes.of_query(np.zeros(DIMENSION, dtype=np.float32))
            held.nearest(found, code, 3)
            held.nearest(found, code, 3, found.rows_of(found.base.positions[:2]))
        return found


def taken(held):
    return sum(kept.nbytes for kept in held._kept.values())


def names(held, catalog):
    with catalog.read() as transaction:
        keys = {find_collection(transaction, name).key: name for name in ("one", "two", "three")}
    return [keys[key] for key in held._kept]


@pytest.mark.slow
def test_what_is_counted_is_all_the_memory_that_is_taken(catalog):
    held = HeldVectors(100 * MOST)
    ask(held, catalog, "one", pays=True)
    [kept] = held._kept.values()
    base = kept.base.nbytes
    tracemalloc.start(5)
    try:
        for turn in range(6):
            add(catalog, "one", 100 * turn + 1, prefix=f"new{turn % 5}-")
            assert ask(held, catalog, "one") is not None
            beside = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([SPACE]).traces)
            assert beside <= kept.nbytes - base + OBJECTS
    finally:
        tracemalloc.stop()
    assert [kept] == list(held._kept.values())
    assert beside > 10 * base


def test_what_is_written_to_a_collection_makes_others_leave(catalog):
    held = HeldVectors(MOST)
    for name in ("two", "one", "three"):
        ask(held, catalog, name, pays=True)
    for turn in range(100):
        add(catalog, "one", 5, prefix=f"new{turn}-")
        assert ask(held, catalog, "one") is not None
        assert taken(held) <= MOST
        if len(held._kept) < 3:
            break
    assert names(held, catalog) == ["three", "one"]


def test_codes_that_have_become_too_large_answer_once_more_and_their_file_is_not_opened_again(catalog, tmp_path):
    most = 3 * COUNT * 100
    held = HeldVectors(most, catalog, CodeFiles(tmp_path / "codes", most))
    before = ask(held, catalog, "one", pays=True)
    add(catalog, "one", 100)
    assert ask(held, catalog, "one").base is before.base
    assert held._kept == {}
    for _ in range(3):
        assert ask(held, catalog, "one") is None
    assert before.base.path.exists()
    after = ask(held, catalog, "one", pays=True)
    assert after.base is not before.base
    assert len(after.later) == 0
