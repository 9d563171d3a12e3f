"""Some of the engine's collections are not adopted, or not yet, and the engine keeps them."""

import numpy as np
import pytest

from tests.properties.consistency import check_engine
from tests.properties.fake_engine import FakeEngine
from tests.support.worlds import OPTIONS
from tests.wrapper.indexing.foreign import ids_of, make_foreign, reports, step_until
from wrapper.engine.failures import EngineBrokenError


def test_the_services_own_interim_collections_are_not_adopted(engine, start):
    for name in (f"rebuild-3-{'0' * 8}-0000-0000-0000-{'0' * 12}", "rebuild-3-None", "docs-replaced-0123abcd"):
        make_foreign(engine, name)
    make_foreign(engine, "rebuild-plan")
    process = start()
    process.drain()
    assert [each.name for each in process.store.collections()] == ["rebuild-plan"]
    assert len(engine.list_collections()) == 4


def test_documents_that_the_catalogue_cannot_hold_are_left_out_and_kept_in_the_engine(engine, start):
    engine_id = make_foreign(engine, number=10)
    vectors = np.array([[np.nan, 1, 2], [1, 2, 3]], dtype="<f4")
    engine.upsert(engine_id, ["nan", "huge"], vectors, ["", ""], [{}, {"big": 2**70, "n": 1}])
    process = start()
    process.drain()
    process.drain()
    assert ids_of(process) == [f"d{n}" for n in range(10)]
    (report,) = reports(process)
    assert (report.documents, report.left_out, report.is_complete) == (10, 2, True)
    assert process.store.collection("foreign").index_state == "ready"
    assert engine.get_collection_name(engine_id) == f"foreign-replaced-{engine_id[:8]}"
    assert engine.count(engine_id) == 12
    process.store.delete_collection("foreign", OPTIONS)
    process.drain()
    process.lead_again()
    process.drain()
    assert (process.store.collections(), reports(process)) == ([], [])


def test_an_unreadable_vector_costs_only_its_own_document(engine, start, monkeypatch):
    engine_id = make_foreign(engine, number=100)
    read = FakeEngine.get

    def get(self, engine_id, *, ids=None, include=(), **kwargs):
        if "embeddings" in include and "d77" in (ids or ()):
            raise EngineBrokenError("Error finding id")
        return read(self, engine_id, ids=ids, include=include, **kwargs)

    monkeypatch.setattr(FakeEngine, "get", get)
    process = start()
    for _ in range(3):
        process.drain()
    assert sorted(ids_of(process)) == sorted(f"d{n}" for n in range(100) if n != 77)
    assert [each.left_out for each in reports(process)] == [1]
    assert engine.count(engine_id) == 100


def test_an_unreadable_collection_does_not_block_the_others(engine, start, monkeypatch):
    broken = make_foreign(engine, "broken")
    make_foreign(engine, "whole")
    read, refusing = FakeEngine.get, [True]

    def get(self, engine_id, **kwargs):
        if engine_id == broken and refusing[0]:
            raise EngineBrokenError("Error deserializing pickle file")
        return read(self, engine_id, **kwargs)

    monkeypatch.setattr(FakeEngine, "get", get)
    process = start()
    process.drain()
    assert len(ids_of(process, "whole")) == 5
    assert [each.collection for each in reports(process)] == ["broken"]
    refusing[0] = False
    step_until(process, lambda: not reports(process))
    assert len(ids_of(process, "broken")) == 5


@pytest.mark.parametrize("taken", [False, True])
def test_a_collection_that_vanishes_during_its_adoption_keeps_only_adopted_documents(engine, start, taken):
    engine_id = make_foreign(engine, number=200)
    process = start()
    step_until(process, lambda: reports(process) and (reports(process)[0].documents > 0) == taken)
    name = engine.get_collection_name(engine_id)
    had = ids_of(process)
    engine.delete_collection(name)
    process.drain()
    if taken:
        assert ids_of(process) == had
        check_engine(process.path, engine)
    else:
        assert process.store.collections() == []


def test_no_collection_is_adopted_below_the_disk_floor(engine, start):
    make_foreign(engine)
    process = start()
    has_space = [False]
    process.applier._adoptions._may_store = lambda: has_space[0]
    process.drain()
    assert ids_of(process) == []
    has_space[0] = True
    step_until(process, lambda: not reports(process))
    assert len(ids_of(process)) == 5
