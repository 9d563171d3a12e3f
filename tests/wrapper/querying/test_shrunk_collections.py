"""Collections that were much larger: a base that is mostly gone is renewed, and no query pays for its size."""

import threading

import pytest

from tests.support.live import eventually
from tests.wrapper import documents
from tests.wrapper.documents import add, create, normal, numbered
from wrapper.catalog.rows import find_collection
from wrapper.querying import held_vectors, kept_codes
from wrapper.querying.code_files import CodeFiles
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.kept_codes import KeptCodes

COUNT, DIMENSION, MEGABYTE = 300, 4, 1_000_000


class Process(HeldVectors):
    """The held vectors of a process, whose clock moves on with each query."""

    def __init__(self, catalog, folder):
        self.now = 0.0
        super().__init__(MEGABYTE, catalog, CodeFiles(folder, MEGABYTE), lambda: self.now)


@pytest.fixture
def catalog(empty_catalog):
    """A collection `one` with 300 documents."""
    create(empty_catalog, "one", metric="l2")
    add(empty_catalog, "one", numbered(COUNT), vectors=normal(COUNT, DIMENSION))
    return empty_catalog


@pytest.fixture
def process(catalog, tmp_path):
    """`process()` gives the held vectors of another process of the service."""
    opened = []

    def process():
        opened.append(Process(catalog, tmp_path / "codes"))
        return opened[-1]

    yield process
    for held in opened:
        held.close()


def ask(held, catalog, *, pays=False):
    """Return the codes for a query, which may read as many documents as the collection has."""
    held.now += 10.0
    with catalog.read() as transaction:
        collection = find_collection(transaction, "one")
        saves_ms = held_vectors.SOON_MS if pays else 0.0
        return held.of(transaction, collection, saves_ms=saves_ms, reading_ms=held_vectors.SOON_MS)


def delete(catalog, first, last):
    documents.delete(catalog, "one", *(f"d{n}" for n in range(first, last)))


@pytest.fixture
def by_queries(monkeypatch):
    """What was asked of codes in the thread of the queries: the most documents that it might read."""
    at, here, asked = KeptCodes.at, threading.current_thread(), []

    def noted(kept, transaction, collection, most=None):
        if threading.current_thread() is here:
            asked.append(most)
        return at(kept, transaction, collection, most)

    monkeypatch.setattr(KeptCodes, "at", noted)
    return asked


def test_a_base_of_which_more_than_half_is_gone_gets_a_new_one(process, catalog, monkeypatch):
    monkeypatch.setattr(kept_codes, "LEAST_GROWTH", 10)
    held = process()
    before = ask(held, catalog, pays=True)
    for first in range(0, COUNT // 2, 50):
        delete(catalog, first, first + 50)
        assert ask(held, catalog).base is before.base
    delete(catalog, COUNT // 2, COUNT // 2 + 1)
    after = ask(held, catalog)
    assert len(after.base.positions) == COUNT // 2 - 1
    assert len(after.gone) == 0


def test_what_is_kept_of_a_collection_that_shrank_is_brought_on_apart_and_so_is_its_file(process, catalog, by_queries):
    kept = process()
    before = ask(kept, catalog, pays=True)
    delete(catalog, 0, 250)
    for held in (kept, process()):
        assert ask(held, catalog) is None
        eventually(lambda held=held: ask(held, catalog) is not None)
        after = ask(held, catalog)
        assert (after.base.path, len(after.gone)) == (before.base.path, 250)
    assert ask(kept, catalog).base is before.base
    assert by_queries
    assert all(most is not None and most <= COUNT + 1 for most in by_queries)


def test_a_long_file_is_opened_apart(process, catalog, monkeypatch):
    ask(process(), catalog, pays=True)
    open_file, here, asked = CodeFiles.open, threading.current_thread(), []

    def noted(*arguments, **options):
        asked.append(threading.current_thread())
        return open_file(*arguments, **options)

    monkeypatch.setattr(CodeFiles, "open", noted)
    monkeypatch.setattr(held_vectors, "SOON_BYTES", 1_000)
    held = process()
    assert ask(held, catalog) is None
    eventually(lambda: ask(held, catalog) is not None)
    assert asked
    assert here not in asked
