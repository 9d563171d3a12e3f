"""Collections that somebody else made in the engine are taken in; deleted ones of ours never come back that way."""

from __future__ import annotations

import shutil
from itertools import count

import numpy as np
import pytest

from schemas.errors import AdoptingError
from schemas.records import METRICS, DocumentBatch, DocumentPatch
from schemas.where import EVERYTHING
from tests.properties.consistency import catalog_state, check_engine, check_tables
from tests.properties.fake_engine import FakeEngine
from tests.properties.processes import Crash, Process, Steps
from tests.properties.stories import add
from wrapper import adoption
from wrapper.catalog import adoptions
from wrapper.engine.errors import EngineBrokenError
from wrapper.store import WriteOptions

OPTIONS = WriteOptions()
SECOND_CRASHES = (None, 3, 8)


@pytest.fixture
def engine():
    return FakeEngine()


@pytest.fixture
def start(tmp_path, engine):
    """`start()` opens a process of the service that leads."""
    opened = []

    def open_process(**kwargs):
        process = Process(tmp_path, engine, **kwargs)
        opened.append(process)
        process.lead()
        return process

    yield open_process
    for process in opened:
        process.close()


def _make(engine, name="foreign", number=5, *, metric="l2", metadata=None, first=0):
    made = engine.get_collection(name)
    engine_id = made.id if made else engine.create_collection(name, metric=metric, metadata=metadata)
    numbers = range(first, first + number)
    vectors = np.random.default_rng(7).normal(size=(first + number, 3)).astype("<f4")[first:] * 2
    engine.upsert(
        engine_id, [f"d{n}" for n in numbers], vectors, [f"t{n}" for n in numbers], [{"n": n} for n in numbers]
    )
    return engine_id


def _page(process, name="foreign", limit=1000):
    return process.store.page(name, EVERYTHING, limit=limit, offset=0, order_by=(), cursor=None, with_embeddings=True)[
        0
    ]


def _ids(process, name="foreign"):
    return [each.id for each in _page(process, name).documents]


def _report(process):
    with process.catalog.read() as transaction:
        return adoptions.report(transaction)


def _step_until(process, condition):
    for _ in range(200):
        if condition():
            return
        process.applier.maintain()
    raise AssertionError("never")


@pytest.mark.parametrize("metric", METRICS)
def test_a_collection_is_taken_in_whole_and_in_order(engine, start, metric):
    engine_id = _make(engine, number=1234, metric=metric, metadata={"owner": "x", "level": 1.5})
    process = start()
    process.drain()
    found = process.store.collection("foreign")
    assert (found.metric, found.metadata, found.count, found.dimension) == (
        metric,
        {"owner": "x", "level": 1.5},
        1234,
        3,
    )
    assert (found.engine_id, found.index_state) == (engine_id, "ready")
    assert _ids(process)[:1000] == [f"d{n}" for n in range(1000)]
    assert process.lag() == 0
    assert _report(process) == []
    check_tables(process.path)
    check_engine(process.path, engine)


def test_it_is_read_and_not_written_to_meanwhile(engine, start):
    _make(engine, number=200)
    process = start()
    _step_until(process, lambda: _report(process) and _report(process)[0].documents > 0)
    (progress,) = _report(process)
    assert (progress.collection, progress.of, progress.is_complete) == ("foreign", 200, False)
    assert 0 < progress.documents < 200
    assert len(_ids(process)) == progress.documents
    assert process.planner.query("foreign", np.ones(3, dtype="<f4"), top_k=1).plan == "scan"
    batch = DocumentBatch(["new"], [""], [{}], np.ones((1, 3), dtype="<f4"))
    for write in (
        lambda: process.store.add_documents("foreign", batch, OPTIONS),
        lambda: process.store.patch_document("foreign", "d1", DocumentPatch(text="new"), OPTIONS),
        lambda: process.store.delete_documents("foreign", OPTIONS, ids=["d1"]),
        lambda: process.store.empty_collection("foreign", OPTIONS),
        lambda: process.store.rebuild_index("foreign"),
        lambda: process.store.change_collection_metadata("foreign", {"a": 1}, OPTIONS, merge=True),
    ):
        with pytest.raises(AdoptingError, match=f"{progress.documents} of 200"):
            write()
    process.drain()
    add("foreign", ("new", {}, 1)).run(process.store)
    process.drain()
    assert len(_ids(process)) == 201
    check_engine(process.path, engine)


def test_writes_to_others_are_not_held_up(engine, start):
    process = start()
    process.drain()
    process.store.create_collection("ours", {}, "l2", OPTIONS)
    _make(engine, number=200)
    process.lead_again()
    _step_until(process, lambda: _report(process))
    add("ours", ("d1", {}, 1)).run(process.store)
    assert process._indexer._drain_some()
    assert process._indexer._drain_some()
    assert process.lag() == 0
    assert not _report(process)[0].is_complete


def test_one_that_is_made_later_is_found_at_the_next_round(engine, start):
    process = start()
    process.drain()
    _make(engine)
    _step_until(process, lambda: process.store.collections())
    process.drain()
    assert len(_ids(process)) == 5


def test_what_another_client_writes_meanwhile_is_taken_in_too(engine, start):
    engine_id = _make(engine, number=300)
    process = start()
    _step_until(process, lambda: _report(process) and _report(process)[0].documents >= 100)
    engine.delete(engine_id, ["d3", "d4"])
    _make(engine, number=50, first=300)
    for _ in range(5):
        process.drain()
    assert {f"d{n}" for n in range(5, 350)} <= set(_ids(process))
    check_tables(process.path)


def test_a_crash_at_any_step_doubles_and_loses_nothing(engine, tmp_path):
    _make(engine, number=120)
    for crash_at in count():
        directory = tmp_path / str(crash_at)
        directory.mkdir()
        process = Process(directory, engine, Steps(crash_at))
        try:
            process.lead()
            process.drain()
            break
        except Crash:
            pass
        finally:
            process.close()
        check_tables(process.path)
        process = Process(directory, engine)
        process.lead()
        process.drain()
        assert _ids(process) == [f"d{n}" for n in range(120)]
        check_tables(process.path)
        check_engine(process.path, engine)
        process.close()
    assert crash_at > 20


def _life(process, engine):
    """Everything that moves a collection about in the engine."""
    process.store.create_collection("docs", {"topic": "x"}, "l2", OPTIONS)
    process.drain()
    add("docs", ("d1", {}, 1), ("d2", {}, 2)).run(process.store)
    process.drain()
    process.store.empty_collection("docs", OPTIONS)
    process.drain()
    add("docs", ("d3", {}, 3), ("d4", {}, 4)).run(process.store)
    process.drain()
    key = process.store.collection("docs").key
    process.applier._rebuilds.begin(key, "a test")
    process.drain()


def test_a_deleted_collection_never_comes_back(tmp_path):
    """Killed at any step of its life, then deleted, then killed again while it is being removed."""
    empty = tmp_path / "empty"
    empty.mkdir()
    Process(empty, FakeEngine()).close()
    for first in count():
        for second in SECOND_CRASHES:
            directory, engine = tmp_path / f"{first}-{second}", FakeEngine()
            shutil.copytree(empty, directory)
            process = Process(directory, engine, Steps(first))
            try:
                process.lead()
                _life(process, engine)
                lived = True
            except Crash:
                lived = False
            finally:
                process.close()
            process = Process(directory, engine, None if second is None else Steps(second))
            try:
                if process.store.collections():
                    process.store.delete_collection("docs", OPTIONS)
                process.lead()
                process.drain()
            except Crash:
                pass
            finally:
                process.close()
            process = Process(directory, engine)
            for each in process.store.collections():
                process.store.delete_collection(each.name, OPTIONS)
            process.lead()
            process.drain()
            process.drain()
            assert catalog_state(process.path) == {}, (first, second)
            assert engine.list_collections() == [], (first, second)
            process.close()
            shutil.rmtree(directory)
        if lived:
            break
    assert first > 60


def test_a_collection_deleted_while_it_is_adopted_is_gone(engine, start):
    _make(engine, number=200)
    process = start()
    _step_until(process, lambda: _report(process) and _report(process)[0].documents > 0)
    process.store.delete_collection("foreign", OPTIONS)
    process.applier.maintain()
    assert process.store.collections() == []
    process.drain()
    process.lead_again()
    process.drain()
    assert (process.store.collections(), engine.list_collections(), _report(process)) == ([], [], [])


def test_what_is_in_transit_is_nobodys(engine, start):
    for name in (f"rebuild-3-{'0' * 8}-0000-0000-0000-{'0' * 12}", "rebuild-3-None", "docs-replaced-0123abcd"):
        _make(engine, name)
    _make(engine, "rebuild-plan")
    process = start()
    process.drain()
    assert [each.name for each in process.store.collections()] == ["rebuild-plan"]
    assert len(engine.list_collections()) == 4


def test_one_of_a_name_that_is_taken_is_put_aside_and_kept(engine, start):
    process = start()
    process.store.create_collection("docs", {}, "l2", OPTIONS)
    add("docs", ("ours", {}, 1)).run(process.store)
    process.drain()
    engine.delete_collection("docs")
    engine_id = _make(engine, "docs")
    process.lead_again()
    process.drain()
    process.drain()
    assert _ids(process, "docs") == ["ours"]
    assert [each.name for each in process.store.collections()] == ["docs"]
    assert engine.get_collection_name(engine_id) == f"docs-replaced-{engine_id[:8]}"
    assert engine.count(engine_id) == 5


def test_documents_without_text_or_metadata(engine, start):
    engine_id = engine.create_collection("foreign", metric="cosine")
    engine.upsert(engine_id, ["a", "b"], np.eye(2, dtype="<f4"), [None, "b"], [{}, {"l": ["x", "y"]}])
    process = start()
    process.drain()
    assert [(each.text, each.metadata) for each in _page(process).documents] == [("", {}), ("b", {"l": ["x", "y"]})]
    marked = {each: record.metadata.get("rag:lists") for each, record in engine._held(engine_id).records.items()}
    assert marked == {"a": None, "b": True}


def test_what_the_catalogue_cannot_hold_is_left_out_and_kept_in_the_engine(engine, start):
    engine_id = _make(engine, number=10)
    vectors = np.array([[np.nan, 1, 2], [1, 2, 3]], dtype="<f4")
    engine.upsert(engine_id, ["nan", "huge"], vectors, ["", ""], [{}, {"big": 2**70, "n": 1}])
    process = start()
    process.drain()
    process.drain()
    assert _ids(process) == [f"d{n}" for n in range(10)]
    (report,) = _report(process)
    assert (report.documents, report.left_out, report.is_complete) == (10, 2, True)
    assert process.store.collection("foreign").index_state == "ready"
    assert engine.get_collection_name(engine_id) == f"foreign-replaced-{engine_id[:8]}"
    assert engine.count(engine_id) == 12
    process.store.delete_collection("foreign", OPTIONS)
    process.drain()
    process.lead_again()
    process.drain()
    assert (process.store.collections(), _report(process)) == ([], [])


def test_a_vector_that_cannot_be_read_costs_its_own_document_only(engine, start, monkeypatch):
    engine_id = _make(engine, number=100)
    read = FakeEngine.get

    def get(self, engine_id, *, ids=None, include=(), **kwargs):
        if "embeddings" in include and "d77" in (ids or ()):
            raise EngineBrokenError("Error finding id")
        return read(self, engine_id, ids=ids, include=include, **kwargs)

    monkeypatch.setattr(FakeEngine, "get", get)
    process = start()
    for _ in range(3):
        process.drain()
    assert sorted(_ids(process)) == sorted(f"d{n}" for n in range(100) if n != 77)
    assert [each.left_out for each in _report(process)] == [1]
    assert engine.count(engine_id) == 100


def test_one_that_cannot_be_read_does_not_block_the_others(engine, start, monkeypatch):
    broken = _make(engine, "broken")
    _make(engine, "whole")
    read, refusing = FakeEngine.get, [True]

    def get(self, engine_id, **kwargs):
        if engine_id == broken and refusing[0]:
            raise EngineBrokenError("Error deserializing pickle file")
        return read(self, engine_id, **kwargs)

    monkeypatch.setattr(FakeEngine, "get", get)
    process = start()
    process.drain()
    assert len(_ids(process, "whole")) == 5
    assert [each.collection for each in _report(process)] == ["broken"]
    refusing[0] = False
    _step_until(process, lambda: not _report(process))
    assert len(_ids(process, "broken")) == 5


@pytest.mark.parametrize("taken", [False, True])
def test_one_that_vanishes_meanwhile(engine, start, taken):
    engine_id = _make(engine, number=200)
    process = start()
    _step_until(process, lambda: _report(process) and (_report(process)[0].documents > 0) == taken)
    name = engine.get_collection_name(engine_id)
    had = _ids(process)
    engine.delete_collection(name)
    process.drain()
    if taken:
        assert _ids(process) == had
        check_engine(process.path, engine)
    else:
        assert process.store.collections() == []


def test_nothing_is_taken_in_below_the_disk_floor(engine, start):
    _make(engine)
    process = start()
    has_space = [False]
    process.applier._adoptions._may_store = lambda: has_space[0]
    process.drain()
    assert _ids(process) == []
    has_space[0] = True
    _step_until(process, lambda: not _report(process))
    assert len(_ids(process)) == 5


def test_large_documents_are_read_few_at_a_time(engine, start, monkeypatch):
    engine_id = engine.create_collection("foreign", metric="l2")
    vectors = np.random.default_rng(1).normal(size=(120, 3)).astype("<f4")
    ids = [f"d{n}" for n in range(120)]
    engine.upsert(engine_id, ids, vectors, ["x" * 10_000] * 120, [{}] * 120)
    monkeypatch.setattr(adoption, "BLOCK_BYTES", 100_000)
    sizes, read = [], FakeEngine.get

    def get(self, engine_id, *, ids=None, include=(), **kwargs):
        if "documents" in include:
            sizes.append(len(ids))
        return read(self, engine_id, ids=ids, include=include, **kwargs)

    monkeypatch.setattr(FakeEngine, "get", get)
    process = start()
    process.drain()
    assert max(sizes[1:]) <= 10
    assert len(_ids(process)) == 120


@pytest.mark.parametrize("says", METRICS)
@pytest.mark.parametrize("really", METRICS)
def test_the_metric_is_the_one_that_the_engine_searches_by(engine, start, says, really):
    engine_id = _make(engine, metric=says)
    describe = FakeEngine._described
    engine._held(engine_id).metric = really
    engine._described = lambda each: _saying(describe(engine, each), says)
    process = start()
    process.drain()
    assert process.store.collection("foreign").metric == really


def test_the_engines_own_keys_survive_a_change_of_metadata(engine, start):
    process = start()
    _make(engine, metadata={"owner": "x"})
    engine._held(engine.get_collection("foreign").id).metadata["hnsw:space"] = "l2"
    process.drain()
    process.drain()
    process.store.change_collection_metadata("foreign", {"new": 1, "hnsw:space": "ip"}, OPTIONS, merge=False)
    assert process.store.collection("foreign").metadata == {"hnsw:space": "l2", "new": 1}


def _saying(found, metric):
    return type(found)(found.id, found.name, found.metadata, found.dimension, metric, rebuild=found.rebuild)
