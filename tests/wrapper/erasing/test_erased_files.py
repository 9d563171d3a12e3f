"""What was erased stays in no file, whatever makes codes of it meanwhile, and the search for it reads the files of the
catalogue, which this process has open, too."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from schemas.storage.erasure import ErasureRequest
from tests.support.commands import run_command
from tests.support.live import PATIENCE_SECONDS
from tests.wrapper.documents import add, collection_of, create, normal, numbered
from wrapper.catalog.rows import find_collection
from wrapper.erasing.file_search import BLOCK_BYTES, search_files
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
def catalog(empty_catalog):
    """A collection `one` with 50 documents."""
    create(empty_catalog, "one", metric="l2")
    add(empty_catalog, "one", numbered(COUNT), vectors=normal(COUNT, DIMENSION))
    return empty_catalog


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


TAKE_FOR_ITSELF = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=0)
try:
    database.execute("PRAGMA journal_mode = DELETE")
except sqlite3.OperationalError as error:
    print(error)
"""
"""SQLite lets only the one connection there is leave the write-ahead log."""


@pytest.mark.slow
def test_another_process_cannot_take_the_catalogue_after_a_search(app, client, filled):
    data_dir = app.extensions["rag.service"].settings.data_dir
    collection = filled()
    word = f"zq{collection}"

    def add(document_id, text):
        body = {"documents": [{"id": document_id, "text": text, "embedding": [1.0, 2.0]}]}
        assert client.post(f"/collections/{collection}/documents", json=body).status_code == 201

    def another_process_opens_and_closes():
        assert run_command("keys", "list", data_dir=data_dir).returncode == 0

    add(word, word)
    found = search_files(data_dir, [word.encode(), b"that nobody " + b"wrote"])
    assert [*found.values()] == [[word.encode()]] * len(found) != []
    assert client.post("/api/erase", json={"collection": collection, "document": word}).status_code == 200

    taken = subprocess.run(
        [sys.executable, "-c", TAKE_FOR_ITSELF, data_dir / "catalog.sqlite"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (taken.stdout, taken.stderr) == ("database is locked\n", "")

    # One that took itself for the last one would remove the log of this service when it closes the catalogue.
    another_process_opens_and_closes()
    add("b", "kept")
    another_process_opens_and_closes()
    assert client.get(f"/collections/{collection}/documents/b").json["text"] == "kept"


def test_files_are_told_with_what_they_have(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "text").write_bytes(b"..one..")
    (tmp_path / "c").write_bytes(b"..two..")
    (tmp_path / "other").write_bytes(b"..three..two..")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    assert search_files(tmp_path, [b"one", b"two", b"three", b"four"]) == {
        tmp_path / "a" / "b" / "text": [b"one"],
        tmp_path / "c": [b"two"],
        tmp_path / "other": [b"two", b"three"],
    }
    assert search_files(tmp_path, []) == {}


def test_words_across_the_end_of_a_block_and_bytes_that_are_no_text_are_found_or_an_error_tells(tmp_path):
    (tmp_path / "large").write_bytes(bytes(BLOCK_BYTES - 3) + b"across" + b"\xff\xfe")
    found = search_files(tmp_path, [b"across", b"\xff\xfe", b"\xfe\xff"])
    assert found == {tmp_path / "large": [b"across", b"\xff\xfe"]}
    with pytest.raises(OSError, match="NotADirectoryError"):
        search_files(tmp_path / "large", [b"one"])
