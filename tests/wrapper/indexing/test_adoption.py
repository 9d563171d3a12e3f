"""Collections that other programs made in the engine are adopted."""

from itertools import product

import numpy as np
import pytest

from schemas.errors import AdoptingError
from schemas.records import METRICS, DocumentBatch, DocumentPatch
from tests.properties.consistency import check_engine, check_tables
from tests.properties.fake_engine import FakeEngine
from tests.properties.stories import add
from tests.wrapper.indexing.foreign import ids_of, make_foreign, page, reports, step_until
from wrapper.indexing import adoption
from wrapper.writing import WriteOptions

OPTIONS = WriteOptions()


@pytest.mark.slow
def test_a_collection_is_adopted_whole_and_in_order(engine, start):
    engine_id = make_foreign(engine, number=1234, metric="ip", metadata={"owner": "x", "level": 1.5})
    process = start()
    process.drain()
    found = process.store.collection("foreign")
    described = (found.metric, found.metadata, found.count, found.dimension)
    assert described == ("ip", {"owner": "x", "level": 1.5}, 1234, 3)
    assert (found.engine_id, found.index_state) == (engine_id, "ready")
    assert ids_of(process)[:1000] == [f"d{n}" for n in range(1000)]
    assert process.lag() == 0
    assert reports(process) == []
    check_tables(process.path)
    check_engine(process.path, engine)


def test_a_collection_may_be_read_but_not_written_during_its_adoption(engine, start):
    make_foreign(engine, number=200)
    process = start()
    step_until(process, lambda: reports(process) and reports(process)[0].documents > 0)
    (progress,) = reports(process)
    assert (progress.collection, progress.of, progress.is_complete) == ("foreign", 200, False)
    assert 0 < progress.documents < 200
    assert len(ids_of(process)) == progress.documents
    assert process.planner.query("foreign", np.ones(3, dtype="<f4"), top_k=1).plan == "scan"
    batch = DocumentBatch(["new"], [""], [{}], np.ones((1, 3), dtype="<f4"))
    for write in (
        lambda: process.store.add_documents("foreign", batch, OPTIONS),
        lambda: process.store.patch_document("foreign", "d1", DocumentPatch(text="new"), OPTIONS),
        lambda: process.store.delete_documents("foreign", OPTIONS, ids=["d1"]),
        lambda: process.store.empty_collection("foreign", OPTIONS),
        lambda: process.store.indexes.rebuild("foreign"),
        lambda: process.store.change_collection_metadata("foreign", {"a": 1}, OPTIONS, merge=True),
    ):
        with pytest.raises(AdoptingError, match=f"{progress.documents} of 200"):
            write()
    process.drain()
    add("foreign", ("new", {}, 1)).run(process.store)
    process.drain()
    assert len(ids_of(process)) == 201
    check_engine(process.path, engine)


def test_an_adoption_does_not_hold_up_writes_to_other_collections(engine, start):
    process = start()
    process.drain()
    process.store.create_collection("ours", {}, "l2", OPTIONS)
    make_foreign(engine, number=200)
    process.lead_again()
    step_until(process, lambda: reports(process))
    add("ours", ("d1", {}, 1)).run(process.store)
    assert process._indexer._drain_some()
    assert process._indexer._drain_some()
    assert process.lag() == 0
    assert not reports(process)[0].is_complete


def test_a_collection_made_later_is_found_in_the_next_round(engine, start):
    process = start()
    process.drain()
    make_foreign(engine)
    step_until(process, lambda: process.store.collections())
    process.drain()
    assert len(ids_of(process)) == 5


@pytest.mark.slow
def test_writes_of_another_client_during_the_adoption_are_adopted_too(engine, start):
    engine_id = make_foreign(engine, number=300)
    process = start()
    step_until(process, lambda: reports(process) and reports(process)[0].documents >= 100)
    engine.delete(engine_id, ["d3", "d4"])
    make_foreign(engine, number=50, first=300)
    for _ in range(5):
        process.drain()
    assert {f"d{n}" for n in range(5, 350)} <= set(ids_of(process))
    check_tables(process.path)


def test_documents_without_text_or_metadata_are_adopted(engine, start):
    engine_id = engine.create_collection("foreign", metric="cosine")
    engine.upsert(engine_id, ["a", "b"], np.eye(2, dtype="<f4"), [None, "b"], [{}, {"l": ["x", "y"]}])
    process = start()
    process.drain()
    assert [(each.text, each.metadata) for each in page(process).documents] == [("", {}), ("b", {"l": ["x", "y"]})]
    marked = {each: record.metadata.get("rag:lists") for each, record in engine._held(engine_id).records.items()}
    assert marked == {"a": None, "b": True}


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
    assert len(ids_of(process)) == 120


@pytest.mark.slow
def test_the_metric_is_the_one_that_the_engine_searches_by(engine, start):
    describe, saying = FakeEngine._described, {}
    for says, really in product(METRICS, METRICS):
        engine_id = make_foreign(engine, f"{says}-{really}", metric=says)
        engine._held(engine_id).metric = really
        saying[engine_id] = says
    engine._described = lambda each: _saying((found := describe(engine, each)), saying[found.id])
    process = start()
    process.drain()
    found = {each.name: each.metric for each in process.store.collections()}
    assert found == {f"{says}-{really}": really for says, really in product(METRICS, METRICS)}


def _saying(found, metric):
    return type(found)(found.id, found.name, found.metadata, found.dimension, metric, rebuild=found.rebuild)
