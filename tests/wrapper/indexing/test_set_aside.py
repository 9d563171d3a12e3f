"""Documents that the engine cannot take are set aside: found, named, retried when it makes sense, blocking nobody."""

import numpy as np
import pytest

from tests.properties.stories import add
from tests.support.worlds import OPTIONS, BrittleEngine
from wrapper.indexing.engine_collections import DOCUMENTS_PER_CALL


@pytest.fixture
def engine():
    return BrittleEngine()


def _nearest(world, number, name="docs"):
    found = world.process.planner.query(name, world.vector(number), top_k=1)
    return found.matches[0].document.id, found.plan


def _set_aside(world, name="docs"):
    found = world.store.indexes.of(name).hindrances
    assert len(found.first_refused) == found.refused
    return {each.id: each.reason for each in found.first_refused}


@pytest.mark.parametrize("kind", ["refusing", "breaking"])
def test_a_document_that_the_engine_cannot_take_is_found_and_named_and_the_others_are_indexed(world, engine, kind):
    world.fill(count=20)
    getattr(engine, kind).update({"bad"})
    add("docs", ("new", {}, 20), ("bad", {}, 21), ("newer", {}, 22)).run(world.store)
    world.process.drain()
    assert world.process.lag() == 0
    assert set(world.records()) == {f"d{n}" for n in range(20)} | {"new", "newer"}
    assert world.state() == "ready"
    assert _nearest(world, 21) == ("bad", "index")
    assert _nearest(world, 22) == ("newer", "index")
    assert list(_set_aside(world)) == ["bad"]
    assert _set_aside(world)["bad"].startswith(
        {"refusing": "The engine refused", "breaking": "The engine breaks"}[kind]
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["refusing", "breaking"])
def test_many_of_them_far_apart_leave_the_rest_in_the_index(world, engine, kind):
    engine_ids = {f"d{n}" for n in (0, 1, 250, 499, 500, DOCUMENTS_PER_CALL + 99)}
    getattr(engine, kind).update(engine_ids)
    world.fill(count=DOCUMENTS_PER_CALL + 100)
    assert set(_set_aside(world)) == engine_ids
    assert set(world.records()) == {f"d{n}" for n in range(DOCUMENTS_PER_CALL + 100)} - engine_ids
    assert world.state() == "ready"
    assert not [each.name for each in engine.list_collections() if each.name != "docs"]


def test_a_write_of_such_a_document_is_not_said_to_be_indexed(world, engine):
    world.fill()
    engine.refusing.add("bad")
    world.process.applies_at_once()
    written = world.store.add_documents("docs", world.batch("good", "bad"), OPTIONS)
    assert (written.indexed, written.set_aside) == (False, ["bad"])
    again = world.store.add_documents("docs", world.batch("good", "bad"), OPTIONS)
    assert (again.indexed, again.set_aside, again.outcome.unchanged) == (False, ["bad"], 2)
    assert world.store.add_documents("docs", world.batch("better"), OPTIONS).indexed


def test_it_is_not_sent_again_until_it_changes(world, engine):
    world.fill()
    engine.refusing.add("bad")
    add("docs", ("bad", {}, 5)).run(world.store)
    world.process.drain()
    engine.sent.clear()
    add("docs", ("other", {}, 6)).run(world.store)
    world.store.indexes.check("docs")
    world.process.drain()
    assert engine.sent == [["other"]]
    engine.refusing.clear()
    add("docs", ("bad", {"smaller": True}, 5)).run(world.store)
    world.process.drain()
    assert _set_aside(world) == {}
    world.check()


def test_a_new_version_that_is_refused_takes_the_old_one_out_of_the_index(world, engine):
    world.fill()
    engine.refusing.add("d1")
    add("docs", ("d1", {"larger": True}, 30)).run(world.store)
    world.process.drain()
    assert set(world.records()) == {"d0", "d2"}
    assert _nearest(world, 30) == ("d1", "index")


@pytest.mark.parametrize("still", [False, True])
def test_another_release_of_the_engine_is_tried_apart_from_the_index(world, engine, still):
    engine.breaking.add("d1")
    world.fill()
    if not still:
        engine.breaking.clear()
    held = engine.get_collection("docs").id
    world.process.engine_release = "chromadb 2.0"
    world.store.indexes.check("docs")
    world.process.drain()
    assert engine.get_collection("docs").id == held
    assert list(_set_aside(world)) == (["d1"] if still else [])
    assert world.state() == "ready"
    engine.sent.clear()
    world.store.indexes.check("docs")
    world.process.drain()
    assert engine.sent == []


@pytest.mark.parametrize("how", ["document", "filter", "empty", "collection"])
def test_it_goes_with_its_document(world, engine, how):
    world.fill()
    engine.refusing.add("bad")
    add("docs", ("bad", {"kind": "bad"}, 5)).run(world.store)
    world.process.drain()
    if how == "document":
        world.store.delete_documents("docs", OPTIONS, ids=["bad"])
    elif how == "filter":
        world.store.delete_documents("docs", OPTIONS, where=world.where({"kind": "bad"}))
    elif how == "empty":
        world.store.empty_collection("docs", OPTIONS)
    else:
        world.store.delete_collection("docs", OPTIONS)
    world.process.drain()
    with world.process.catalog.read() as transaction:
        assert transaction.rows("SELECT * FROM set_aside") == []
    world.check()


def test_an_index_without_it_is_as_it_should_be(world, engine):
    engine.refusing.add("d1")
    world.fill()
    world.process.restarts_asked += 1
    world.process.drain()
    found = world.store.indexes.of("docs")
    assert (found.collection.index_state, found.report.fault, found.report.rebuilds) == ("ready", None, 0)


def test_vectors_of_what_is_set_aside_are_compared_exactly(world, engine):
    engine.refusing.update(f"d{n}" for n in range(0, 40, 3))
    world.fill(count=40)
    for number in range(40):
        vector = world.vector(number)
        found = world.process.planner.query("docs", vector, top_k=5)
        assert found.plan == "index"
        world.process.engine_up = False
        scanned = world.process.planner.query("docs", vector, top_k=5)
        world.process.engine_up = True
        assert [each.document.id for each in found.matches] == [each.document.id for each in scanned.matches]
        assert np.allclose([m.distance for m in found.matches], [m.distance for m in scanned.matches])
