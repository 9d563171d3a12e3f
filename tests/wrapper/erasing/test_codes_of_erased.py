"""Codes of what was erased stay in no file, whatever makes them meanwhile."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from schemas.storage.erasure import ErasureRequest
from tests.properties.catalogs import open_catalog
from tests.support.live import PATIENCE_SECONDS
from tests.wrapper.documents import add, collection_of, create, normal, numbered
from wrapper.catalog.rows import find_collection
from wrapper.erasing.storage_erasure import StorageErasure
from wrapper.querying import code_files, held_vectors
from wrapper.querying.code_files import CodeFiles
from wrapper.querying.held_vectors import HeldVectors

COUNT, DIMENSION, MEGABYTE = 50, 4, 1_000_000
UNTIL = 60.0


class Time:
    """A clock that pauses alone move on, each of which calls `on_pause`."""

    def __init__(self):
        self.now = 0.0
        self.on_pause = lambda: None

    def __call__(self):
        return self.now

    def pause(self, seconds):
        self.now += seconds
        self.on_pause()


class Indexer:
    """An indexer that never comes to it."""

    def notify(self):
        pass

    def wait(self, entry, seconds):
        return False


REBUILDING = "its rebuild has not begun yet"


@pytest.fixture
def catalog(tmp_path):
    """A collection `one` with 50 documents."""
    catalog = open_catalog(tmp_path / "catalog.sqlite")
    create(catalog, "one", metric="l2")
    add(catalog, "one", numbered(COUNT), vectors=normal(COUNT, DIMENSION))
    yield catalog
    catalog.close()


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def erase(catalog, tmp_path, time):
    """`erase()` erases a document, and returns what is not done of it then."""
    storage = StorageErasure(catalog, Indexer(), tmp_path, None, owns_engine=False, clock=time, pause=time.pause)

    def erase():
        storage.delete(ErasureRequest(collection="one", document="d7"), lambda found: found)
        return storage.renew_index("one", until=UNTIL)

    return erase


@pytest.fixture
def files(tmp_path):
    return CodeFiles(tmp_path / "codes", MEGABYTE)


@pytest.fixture
def ask(catalog, files):
    """`ask()` returns the codes of the collection, which a query has paid for."""
    held = HeldVectors(MEGABYTE, catalog, files)

    def ask():
        with catalog.read() as transaction:
            return held.of(transaction, find_collection(transaction, "one"), saves_ms=50.0, reading_ms=50.0)

    return ask


def in_another_thread(work):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(PATIENCE_SECONDS)


def left(tmp_path):
    return [path.name for path in (tmp_path / "codes").iterdir() if path.suffix != ".lock"]


def test_codes_that_are_made_during_an_erasure_get_no_file(ask, erase, tmp_path, monkeypatch, time):
    encoded, erased = held_vectors.encoded, []

    def slow(*arguments):
        if not erased:
            erased.append(in_another_thread(erase))
        return encoded(*arguments)

    monkeypatch.setattr(held_vectors, "encoded", slow)
    assert ask() is None
    assert erased == ["codes of its vectors are being made"]
    assert time.now > UNTIL
    assert left(tmp_path) == []
    assert len(ask().base.positions) == COUNT - 1
    assert len(left(tmp_path)) == 1


def test_an_erasure_waits_for_a_file_that_is_about_to_get_its_name(ask, erase, tmp_path, monkeypatch, time):
    replace, waits, is_made, begun = os.replace, threading.Event(), threading.Event(), []

    def wait():
        waits.set()
        is_made.wait(PATIENCE_SECONDS)

    time.on_pause = wait
    with ThreadPoolExecutor(1) as pool:

        def late(*paths):
            begun.append(pool.submit(erase))
            assert waits.wait(PATIENCE_SECONDS)
            replace(*paths)

        with monkeypatch.context() as patched:
            patched.setattr(code_files.os, "replace", late)
            assert len(ask().base.positions) == COUNT
        assert len(left(tmp_path)) == 1
        is_made.set()
        assert begun[0].result(PATIENCE_SECONDS) == REBUILDING
    assert left(tmp_path) == []


def test_what_a_process_that_was_killed_has_left_of_codes_goes_with_an_erasure(erase, files, catalog, tmp_path):
    collection_id = collection_of(catalog, "one").id
    with files.making(collection_id):
        pass
    (tmp_path / "codes" / f"{collection_id}.0123456789abcdef.incomplete").write_bytes(b"codes")
    assert erase() == REBUILDING
    assert left(tmp_path) == []
