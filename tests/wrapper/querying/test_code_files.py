"""Files of codes: shared by processes, never the truth. Whatever happens to them, answers stay the same. A base that is mostly
gone, as of a collection that was much larger, is renewed, and no query pays for its size."""

import errno
import fcntl
import os
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import numpy as np
import pytest

from tests.support.apps import running_app
from tests.support.live import PATIENCE_SECONDS, eventually
from tests.wrapper.clock import Clock
from tests.wrapper.documents import add, collection_of, create, delete, normal, numbered
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection
from wrapper.querying import code_files, held_vectors, kept_codes
from wrapper.querying.code_files import HEAD_BYTES, CodeFiles, Layout
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.kept_codes import KeptCodes

COUNT, DIMENSION, MEGABYTE = 200, 7, 1_000_000
SIZE = Layout(COUNT, DIMENSION).size


def fill(catalog, name, seed=0):
    add(catalog, name, numbered(COUNT), vectors=normal(COUNT, DIMENSION, seed))


@pytest.fixture
def catalog(empty_catalog):
    """Collections `one` and `two` with 200 documents each."""
    create(empty_catalog, "one", "two", metric="l2")
    for name in ("one", "two"):
        fill(empty_catalog, name)
    return empty_catalog


@pytest.fixture
def clock():
    return Clock(time.time())


@pytest.fixture
def process(catalog, tmp_path, clock):
    """`process()` gives the held vectors of another process of the service."""
    opened = []

    def process(max_bytes=MEGABYTE, **options):
        files = CodeFiles(tmp_path / "codes", max_bytes, clock=clock, **options)
        opened.append(HeldVectors(max_bytes, catalog, files, clock))
        return opened[-1]

    yield process
    for held in opened:
        held.close()


@pytest.fixture
def ask(catalog, clock):
    """`ask(held, pays=…)` returns the codes of a collection, which a query asks for."""

    def ask(held, name="one", *, pays=False, reading_ms=50.0):
        clock.now += 10.0
        with catalog.read() as transaction:
            collection = find_collection(transaction, name)
            return held.of(transaction, collection, saves_ms=reading_ms if pays else 0.0, reading_ms=reading_ms)

    return ask


def files(tmp_path):
    return sorted(path.name for path in (tmp_path / "codes").glob("*.codes"))


def test_one_process_makes_the_file_and_the_others_map_it(process, ask, tmp_path):
    made = ask(process(), pays=True)
    other = ask(process())
    assert other is not None, "it need not be paid for again"
    assert other.base.path == made.base.path
    assert np.array_equal(made.base.codes.codes, other.base.codes.codes)
    assert np.array_equal(made.base.positions, other.base.positions)
    assert not other.base.codes.codes.flags.writeable
    assert len(files(tmp_path)) == 1
    assert made.base.path.stat().st_mode & 0o777 == 0o600


def test_a_query_that_would_take_longer_waits_for_the_codes_that_others_have_made(process, catalog, ask, monkeypatch):
    """As after a start: the index is not trusted yet, and the collection is large."""
    assert ask(process(), pays=True) is not None
    monkeypatch.setattr(held_vectors, "SOON_BYTES", SIZE - 1)
    with catalog.read() as transaction:
        collection = find_collection(transaction, "one")
        # The second is that of a query that would have to wait for what it could compute as soon.
        for saves_ms, is_held in ((60_000.0, True), (held_vectors.SOON_MS, False)):
            held = process().of(transaction, collection, saves_ms=saves_ms, reading_ms=100_000.0)
            assert (held is not None) == is_held


def changed(content, place):
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def test_a_damaged_file_and_one_of_another_length_are_noticed_and_made_anew(process, ask):
    path = ask(process(), pays=True).base.path
    whole = path.read_bytes()
    assert len(whole) == SIZE
    places = (0, 9, 100, HEAD_BYTES, HEAD_BYTES + 8 * DIMENSION, SIZE // 2, SIZE - 70, SIZE - 1)
    contents = {f"changed at {place}": changed(whole, place) for place in places}
    lengths = (0, 10, HEAD_BYTES, SIZE - 64, SIZE + 64)
    contents |= {f"{length} bytes long": whole.ljust(length, b"\0")[:length] for length in lengths}
    for how, content in contents.items():
        path.write_bytes(content)
        held = process()
        assert ask(held) is None, how
        assert not path.exists(), how
        path = ask(held, pays=True).base.path
        assert path.read_bytes() == whole, how


@pytest.mark.parametrize("size", [0, HEAD_BYTES, SIZE - 1, SIZE + 64])
def test_a_file_whose_length_changes_while_it_is_mapped_is_let_go_of_and_made_anew(process, ask, size):
    """Its content is not looked at: beyond the end of the file that would end the process."""
    held = process()
    base = ask(held, pays=True).base
    assert base.is_whole()
    os.truncate(base.path, size)
    assert not base.is_whole()
    assert ask(held) is None
    assert not base.path.exists()
    assert ask(held, pays=True).base.path.stat().st_size == SIZE


@pytest.mark.parametrize("of", ["another release", "before the catalogue was restored"])
def test_a_file_that_is_not_of_this_catalogue_and_release_is_made_anew(process, ask, catalog, monkeypatch, of):
    path = ask(process(), pays=True).base.path
    if of == "another release":
        monkeypatch.setattr(code_files, "FORM", code_files.FORM + 1)
    else:
        catalog.commit(lambda transaction: transaction.run("UPDATE histories SET id = 'another'"))
    assert ask(process()) is None
    assert not path.exists()


def test_one_process_at_a_time_makes_codes_of_a_collection(process, ask, tmp_path, catalog):
    other = CodeFiles(tmp_path / "codes", MEGABYTE)
    held = process()
    with other.making(collection_of(catalog, "one").id) as may_make:
        assert may_make
        assert ask(held, pays=True) is None
        assert ask(held, "two", pays=True) is not None
    assert ask(held, pays=True) is not None


@pytest.mark.parametrize("step", ["posix_fallocate", "pwrite", "replace"])
def test_on_a_full_disk_a_process_has_codes_of_its_own_which_are_made_once(process, ask, tmp_path, monkeypatch, step):
    """Whether it is known to be full before, or not."""

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    encoded, asked = held_vectors.encoded, []
    monkeypatch.setattr(held_vectors, "encoded", lambda *arguments: asked.append(1) or encoded(*arguments))
    monkeypatch.setattr(code_files.os, step, full)
    assert ask(process(), pays=True).base.path is None
    assert list((tmp_path / "codes").glob("*.incomplete")) == []
    held = ask(process(has_room=lambda size: size < SIZE), pays=True)
    assert (held.base.path, len(held.base.positions)) == (None, COUNT)
    assert len(asked) == 2
    assert files(tmp_path) == []


def test_collections_used_longest_ago_make_room(process, ask, catalog, clock, tmp_path):
    create(catalog, "three", metric="l2")
    fill(catalog, "three")
    held = process(max_bytes=2 * SIZE + 100)
    one = ask(held, "one", pays=True).base.path
    two = ask(held, "two", pays=True).base.path
    clock.now += 1_000.0
    assert ask(process(max_bytes=2 * SIZE + 100), "one").base.path == one
    three = ask(held, "three", pays=True).base.path
    assert [path.exists() for path in (one, two, three)] == [True, False, True]


@pytest.mark.slow
def test_a_new_file_takes_the_place_of_the_one_before(process, ask, catalog, monkeypatch, tmp_path):
    held = process()
    before = ask(held, pays=True)
    for seed in range(40):
        fill(catalog, "one", seed)
        ask(held, pays=True)
    [name] = files(tmp_path)
    after = ask(held)
    assert after.base.path.name == name != before.base.path.name
    assert np.array_equal(before.base.positions, after.base.positions), "what is mapped stays readable"


def test_what_a_process_has_of_collections_that_are_gone_is_swept(process, ask, catalog, tmp_path):
    held = process()
    ask(held, pays=True)
    two = ask(held, "two", pays=True).base.path
    catalog.commit(lambda transaction: collection_writes.delete_collection(transaction, "one"))
    held.sweep()
    assert {path.name for path in (tmp_path / "codes").iterdir()} == {two.name, f"{two.name.split('.')[0]}.lock"}
    assert len(held._kept) == len(held._accounts) == 1
    assert ask(held, "two").base.path == two


def test_what_is_made_of_a_new_collection_while_others_are_swept_stays(process, ask, catalog, tmp_path, monkeypatch):
    held, all_collections = process(), held_vectors.all_collections

    def late(transaction):
        found = all_collections(transaction)
        create(catalog, "three", metric="l2")
        fill(catalog, "three")
        assert ask(held, "three", pays=True) is not None
        return found

    monkeypatch.setattr(held_vectors, "all_collections", late)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(held.sweep).result(PATIENCE_SECONDS)
    assert len(files(tmp_path)) == len(held._kept) == 1


@pytest.mark.slow
def test_a_service_sweeps_when_it_starts(tmp_path):
    stray = tmp_path / "codes" / f"{uuid.uuid4()}.3.codes"
    stray.parent.mkdir()
    stray.write_bytes(b"of a collection that is gone")
    with running_app(tmp_path):
        eventually(lambda: not stray.exists())


def leave_unfinished(tmp_path, collection_id):
    (tmp_path / "codes").mkdir(exist_ok=True)
    path = tmp_path / "codes" / f"{collection_id}.0123456789abcdef.incomplete"
    path.write_bytes(bytes(SIZE))
    return path


def test_what_killed_processes_have_left_makes_room_and_is_swept(process, ask, catalog, tmp_path):
    path = leave_unfinished(tmp_path, collection_of(catalog, "two").id)
    assert ask(process(max_bytes=SIZE + 100), pays=True).base.path is not None
    assert not path.exists()
    leave_unfinished(tmp_path, collection_of(catalog, "two").id)
    process().sweep()
    assert not path.exists()


def test_what_is_being_made_counts_and_stays(process, ask, catalog, tmp_path):
    two = collection_of(catalog, "two").id
    path, held = leave_unfinished(tmp_path, two), process(max_bytes=2 * SIZE - 1)
    with CodeFiles(tmp_path / "codes").making(two):
        held.sweep()
        assert ask(held, pays=True).base.path is None
    assert path.exists()


def test_a_lock_that_is_removed_before_it_is_locked_keeps_nobody_out(tmp_path, monkeypatch):
    one, two, flock = CodeFiles(tmp_path), CodeFiles(tmp_path), fcntl.flock
    path, others = tmp_path / "collection.lock", ExitStack()

    def removed(*arguments):
        monkeypatch.setattr(code_files.fcntl, "flock", flock)
        path.unlink()
        if is_made_anew:
            assert others.enter_context(two.making("collection"))
        flock(*arguments)

    for is_made_anew in (False, True):
        monkeypatch.setattr(code_files.fcntl, "flock", removed)
        with others, one.making("collection") as may_make:
            assert may_make is not is_made_anew
            with two.making("collection") as may_make_too:
                assert not may_make_too


@pytest.fixture
def ask_soon(ask):
    """`ask_soon(held, pays=…)` asks for a query that may read as many documents as the collection has."""
    return partial(ask, reading_ms=held_vectors.SOON_MS)


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


def test_a_base_of_which_more_than_half_is_gone_gets_a_new_one(process, catalog, ask_soon, monkeypatch):
    monkeypatch.setattr(kept_codes, "LEAST_GROWTH", 10)
    held, ids = process(), numbered(COUNT)
    before = ask_soon(held, pays=True)
    for first in range(0, COUNT // 2, 50):
        delete(catalog, "one", *ids[first : first + 50])
        assert ask_soon(held).base is before.base
    delete(catalog, "one", ids[COUNT // 2])
    after = ask_soon(held)
    assert len(after.base.positions) == COUNT // 2 - 1
    assert len(after.gone) == 0


def test_what_is_kept_of_a_collection_that_shrank_is_brought_on_apart_and_so_is_its_file(
    process, catalog, ask_soon, by_queries
):
    kept, gone = process(), numbered(COUNT * 5 // 6)
    before = ask_soon(kept, pays=True)
    delete(catalog, "one", *gone)
    for held in (kept, process()):
        assert ask_soon(held) is None
        eventually(lambda held=held: ask_soon(held) is not None)
        after = ask_soon(held)
        assert (after.base.path, len(after.gone)) == (before.base.path, len(gone))
    assert ask_soon(kept).base is before.base
    assert by_queries
    assert all(most is not None and most <= COUNT + 1 for most in by_queries)


def test_a_long_file_is_opened_apart(process, ask_soon, monkeypatch):
    ask_soon(process(), pays=True)
    open_file, here, asked = CodeFiles.open, threading.current_thread(), []

    def noted(*arguments, **options):
        asked.append(threading.current_thread())
        return open_file(*arguments, **options)

    monkeypatch.setattr(CodeFiles, "open", noted)
    monkeypatch.setattr(held_vectors, "SOON_BYTES", 1_000)
    held = process()
    assert ask_soon(held) is None
    eventually(lambda: ask_soon(held) is not None)
    assert asked
    assert here not in asked
