"""Vectors held in memory: when they are read, how long they are valid, and how many there may be."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from schemas.errors import UnavailableError
from schemas.where import parse_where
from tests.support.live import PATIENCE_SECONDS, eventually, no_thread_begins
from tests.wrapper.clock import Clock
from tests.wrapper.documents import NoIndex, add, create, delete, normal, numbered
from wrapper import distances
from wrapper.catalog import reads
from wrapper.catalog.rows import find_collection
from wrapper.querying import base_codes, held_vectors, kept_codes
from wrapper.querying.codes import REST_LENGTHS, STEPS
from wrapper.querying.costs import CostModel
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.kept_codes import OvertakenError
from wrapper.querying.planner import Planner

COUNT, DIMENSION = 300, 8
MEGABYTE = 1_000_000
SECOND_QUERY_READS = CostModel(reading_per_document=0.0053)
TAKEN = COUNT * (DIMENSION + DIMENSION // 2 + 5 * 4 + 16 + base_codes.FINDING_BYTES + kept_codes.ROW_BYTES)
"""The bytes that a collection takes: codes, fine codes, five numbers of four bytes for each, positions, places, rows."""


def _vectors(seed, count=COUNT):
    return normal(count, DIMENSION, seed)


def _add(catalog, name, vectors, prefix="d"):
    metadatas = [{"half": n % 2} for n in range(len(vectors))]
    add(catalog, name, numbered(len(vectors), prefix), metadatas=metadatas, vectors=vectors)


@pytest.fixture
def catalog(empty_catalog):
    """Collections `one` and `two` with 300 documents each."""
    create(empty_catalog, "one", "two")
    for seed, name in enumerate(("one", "two")):
        _add(empty_catalog, name, _vectors(seed))
    return empty_catalog


@pytest.fixture
def held(catalog):
    held = HeldVectors(MEGABYTE, catalog)
    yield held
    held.close()


def _planner(catalog, max_bytes=MEGABYTE):
    return Planner(catalog, NoIndex(), SECOND_QUERY_READS, held=HeldVectors(max_bytes))


def _plan(planner, name="one", **how):
    return planner.query(name, _vectors(99, 1)[0], top_k=3, **how).plan


def _of(held, catalog, name, saves_ms, reading_ms=10.0):
    with catalog.read() as transaction:
        return held.of(transaction, find_collection(transaction, name), saves_ms=saves_ms, reading_ms=reading_ms)


def test_a_collection_is_read_once_its_queries_have_paid_for_it(catalog):
    held = HeldVectors(MEGABYTE)
    assert [_of(held, catalog, "one", 4.0) is not None for _ in range(4)] == [False, False, True, True]
    assert _of(held, catalog, "two", 4.0) is None


def test_what_is_held_is_the_code_of_every_vector_at_its_position(catalog):
    held = _of(HeldVectors(MEGABYTE), catalog, "two", 10.0)
    codes, positions = held.base.codes, held.base.positions
    decoded = codes.reference + codes.codes * codes.numbers[STEPS, :, np.newaxis]
    directions = _vectors(1) / np.linalg.norm(_vectors(1), axis=1, keepdims=True)
    assert np.allclose(np.linalg.norm(directions - decoded, axis=1), codes.numbers[REST_LENGTHS], atol=1e-6)
    assert codes.numbers[REST_LENGTHS].max() < 0.01
    assert np.all(np.diff(positions) > 0)
    assert held.rows_of(positions[[3, 7]]).tolist() == [3, 7]


def test_what_takes_long_to_read_keeps_no_query_waiting_and_is_given_up_when_the_service_ends(catalog, held):
    with no_thread_begins():
        assert _of(held, catalog, "one", 1_000.0, reading_ms=held_vectors.SOON_MS + 1) is None
    assert _of(held, catalog, "one", 1_000.0, reading_ms=held_vectors.SOON_MS + 1) is None
    eventually(lambda: _of(held, catalog, "one", 0.0, reading_ms=1_000.0) is not None)
    ended = HeldVectors(MEGABYTE, catalog)
    ended.close()
    assert [_of(ended, catalog, "one", 1_000.0, reading_ms=1_000.0) for _ in range(3)] == [None] * 3


def test_a_reading_that_failed_is_tried_again_once_queries_have_paid_for_it(catalog, held, monkeypatch):
    read, asked = reads.vectors, []

    def failing(*arguments, **how):
        asked.append(arguments)
        if len(asked) <= 2:
            raise UnavailableError("locked for a moment")
        return read(*arguments, **how)

    monkeypatch.setattr(reads, "vectors", failing)
    with pytest.raises(UnavailableError):
        _of(held, catalog, "one", 10.0)
    assert _of(held, catalog, "one", 9.0) is None
    assert _of(held, catalog, "one", 10_000.0, reading_ms=held_vectors.SOON_MS + 1) is None  # fails apart
    eventually(lambda: _of(held, catalog, "one", 10.0) is not None)
    assert len(asked) == 3


def test_what_was_written_is_held_beside_what_was_read(catalog, held):
    before = _of(held, catalog, "one", 10.0)
    vectors = _vectors(5, 3)
    _add(catalog, "one", vectors[:1], prefix="new")
    _add(catalog, "one", vectors[1:], prefix="d")  # the first two of those that were read
    delete(catalog, "one", "d7")
    after = _of(held, catalog, "one", 0.0)
    assert after.base is before.base
    assert (len(after.later), len(after.gone)) == (3, 3)
    assert after.base.positions[after.gone].tolist() == before.base.positions[[0, 1, 7]].tolist()


def test_a_filter_that_only_later_documents_match_is_answered_from_memory(catalog):
    planner = _planner(catalog)
    assert [_plan(planner) for _ in range(2)] == ["scan", "memory"]
    vectors = _vectors(5, 74)
    add(catalog, "one", numbered(74, "late"), metadatas=[{"source": "late"}] * 74, vectors=vectors)
    found = planner.query("one", vectors[7], top_k=2, where=parse_where({"source": "late"}))
    assert (found.plan, found.matches[0].document.id) == ("memory", "late7")


def test_more_than_a_query_may_read_is_read_apart(catalog, held):
    before = _of(held, catalog, "one", 10.0)
    _add(catalog, "one", _vectors(5, 50), prefix="new")
    reading_ms = held_vectors.SOON_MS * COUNT / 20  # so that 20 can be read soon
    assert _of(held, catalog, "one", 0.0, reading_ms=reading_ms) is None
    eventually(lambda: _of(held, catalog, "one", 0.0, reading_ms=reading_ms) is not None)
    after = _of(held, catalog, "one", 0.0)
    assert after.base is before.base
    assert len(after.later) == 50


def test_what_outgrew_its_base_gets_a_new_one_after_a_pause(catalog, monkeypatch):
    monkeypatch.setattr(kept_codes, "LEAST_GROWTH", 10)
    clock, read = Clock(), reads.vectors

    def slow(*arguments):
        clock.now += 2.0
        return read(*arguments)

    monkeypatch.setattr(reads, "vectors", slow)
    held = HeldVectors(MEGABYTE, catalog, clock=clock)
    before = _of(held, catalog, "one", 10.0)
    _add(catalog, "one", _vectors(5, COUNT // 8), prefix="new")
    clock.now += 100.0
    assert _of(held, catalog, "one", 0.0).base is before.base
    _add(catalog, "one", _vectors(6, 1), prefix="more")
    after = _of(held, catalog, "one", 0.0)
    assert after.base is not before.base
    _add(catalog, "one", _vectors(7, COUNT // 8 + 10), prefix="others")
    clock.now += held_vectors.PAUSES * 2.0 - 1.0
    assert _of(held, catalog, "one", 0.0).base is after.base
    clock.now += 1.0
    assert _of(held, catalog, "one", 0.0).base is not after.base


def test_no_query_waits_long_for_another_thread_that_reads_much(catalog, held, monkeypatch):
    monkeypatch.setattr(kept_codes, "WAIT_SECONDS", 0.001)
    before = _of(held, catalog, "one", 10.0)
    kept = next(iter(held._kept.values()))
    with kept._guard:
        assert _in_another_thread(lambda: _of(held, catalog, "one", 0.0)) is before, "of that revision, nothing is read"
        _add(catalog, "one", _vectors(5, 1), prefix="new")
        with catalog.read() as transaction:
            collection = find_collection(transaction, "one")
            with pytest.raises(kept_codes.BehindError):
                kept.at(transaction, collection, 100)


def test_the_last_revisions_can_be_answered_for_and_older_snapshots_are_told_to_try_again(catalog, held):
    with catalog.read() as transaction:
        collection = find_collection(transaction, "one")
        before = held.of(transaction, collection, saves_ms=10.0, reading_ms=10.0)
        for number in range(kept_codes.MOST_STATES - 1):
            _in_another_thread(lambda number=number: _add(catalog, "one", _vectors(number, 1), prefix="new"))
            assert _in_another_thread(lambda: _of(held, catalog, "one", 0.0)) is not None
        assert held.of(transaction, collection, saves_ms=0.0, reading_ms=10.0) is before
        _in_another_thread(lambda: _add(catalog, "one", _vectors(99, 1), prefix="new"))
        assert _in_another_thread(lambda: _of(held, catalog, "one", 0.0)) is not None
        with pytest.raises(OvertakenError):
            held.of(transaction, collection, saves_ms=0.0, reading_ms=10.0)


def _in_another_thread(work):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(PATIENCE_SECONDS)


def test_a_query_whose_snapshot_was_overtaken_takes_another_one(catalog, monkeypatch):
    planner = _planner(catalog)
    assert [_plan(planner) for _ in range(2)] == ["scan", "memory"]
    at, asked = kept_codes.KeptCodes.at, []

    def overtaken(*arguments):
        asked.append(arguments)
        if len(asked) < overtakes:
            raise OvertakenError
        return at(*arguments)

    monkeypatch.setattr(kept_codes.KeptCodes, "at", overtaken)
    overtakes = 3
    assert _plan(planner) == "memory"
    overtakes = 100
    assert _plan(planner) == "scan"


def test_closing_while_queries_ask_refuses_nothing_to_them(catalog):
    for _ in range(20):
        held, asked = HeldVectors(MEGABYTE, catalog), threading.Barrier(5)

        def ask(held=held, asked=asked):
            asked.wait(PATIENCE_SECONDS)
            return [_of(held, catalog, name, 1_000.0, reading_ms=1_000.0) for name in ("one", "two") * 5]

        with ThreadPoolExecutor(4) as threads:
            askers = [threads.submit(ask) for _ in range(4)]
            asked.wait(PATIENCE_SECONDS)
            held.close()
            assert all(len(asker.result(PATIENCE_SECONDS)) == 10 for asker in askers)


def test_long_vectors_are_read_and_sampled_a_few_at_a_time(catalog, monkeypatch):
    monkeypatch.setattr(distances, "COMPONENTS_AT_ONCE", 7 * DIMENSION)
    monkeypatch.setattr(base_codes, "SAMPLED_COMPONENTS", 7 * DIMENSION)
    sizes, at, vectors = [], reads.vectors_at, reads.vectors
    monkeypatch.setattr(reads, "vectors_at", lambda *asked: sizes.append(len(asked[2])) or at(*asked))

    def counted(*asked):
        for places, block in vectors(*asked):
            sizes.append(len(places))
            yield places, block

    monkeypatch.setattr(reads, "vectors", counted)
    assert _of(HeldVectors(MEGABYTE), catalog, "one", 10.0) is not None
    assert max(sizes) == 7
    assert sum(sizes[1:]) == COUNT


def test_the_least_recently_used_vectors_leave_first_and_what_does_not_fit_is_never_read(catalog):
    planner = _planner(catalog, max_bytes=TAKEN + 1)
    for name in ("one", "two", "one"):
        assert [_plan(planner, name) for _ in range(2)] == ["scan", "memory"]
    planner = _planner(catalog, max_bytes=TAKEN - 1)
    assert {_plan(planner) for _ in range(5)} == {"scan"}


def test_vectors_and_queries_too_long_for_products_are_compared_by_themselves(catalog):
    """In a collection in which lengths count."""
    create(catalog, "lengthy", metric="l2")
    _add(catalog, "lengthy", _vectors(0))
    planner = _planner(catalog)
    assert [_plan(planner, "lengthy") for _ in range(2)] == ["scan", "memory"]
    found = planner.query("lengthy", np.full(DIMENSION, 1e30, dtype=np.float32), top_k=3)
    assert (found.plan, found.compared) == ("scan", found.collection.count)
    _add(catalog, "lengthy", np.full((1, DIMENSION), 1e30, dtype=np.float32), prefix="long")
    near = np.full(DIMENSION, 1e18, dtype=np.float32)
    [found] = planner.query("lengthy", near, top_k=1).matches
    assert found.document.id != "long0"
    assert _plan(planner, "lengthy") == "memory"


def test_queries_that_come_together_get_what_each_gets_alone(catalog, monkeypatch):
    monkeypatch.setattr(held_vectors, "TOGETHER_FROM", 1)
    planner = _planner(catalog)
    queries = _vectors(5, 64)

    def ask(query):
        return [(match.document.id, match.distance) for match in planner.query("one", query, top_k=10).matches]

    alone = [ask(query) for query in queries]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, queries)) == alone
