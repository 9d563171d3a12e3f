"""Whatever happens between two steps of the indexer, the engine equals the catalogue afterwards and nothing is left over.

Waiting writers, entries that are applied twice and what the engine lost by itself: tests/wrapper/indexing.
"""

from itertools import count

import pytest

from schemas.records import DocumentPatch
from tests.properties.consistency import catalog_state, check_tables
from tests.properties.stories import add
from tests.support.worlds import OPTIONS, World
from wrapper.catalog.index_state import outbox, states
from wrapper.indexing import rebuilding

DOCUMENTS_PER_CALL, DOCUMENTS = 3, 10
IDS = [f"d{number}" for number in range(DOCUMENTS)]


def _write(world):
    add("docs", ("d0", {"page": 1}, 20), ("d9", {"page": 1}, 21), ("new", {"page": 1}, 22)).run(world.store)
    world.store.delete_documents("docs", OPTIONS, ids=["d1", "d8"])
    world.store.patch_document("docs", "d2", DocumentPatch(metadata={"old": None}), OPTIONS)


def _take_another_dimension(world):
    world.store.empty_collection("docs", OPTIONS)
    add("docs", ("a", {}, 1), ("d3", {}, 2), dimension=7).run(world.store)


def _delete(world):
    world.store.delete_collection("docs", OPTIONS)


def _make_anew(world):
    _delete(world)
    world.store.create_collection("docs", {}, "l2", OPTIONS)
    add("docs", ("d5", {}, 1)).run(world.store)


def _lead_again(world):
    world.process.lead_again()
    assert world.state() == states.REBUILDING


HAPPENINGS = {
    "documents are written": (_write, [{*IDS, "late", "new"} - {"d1", "d8"}]),
    "the collection takes another dimension": (_take_another_dimension, [{"a", "d3"}]),
    "the collection is deleted": (_delete, []),
    "another is made under its name": (_make_anew, [{"d5"}]),
    "another process takes the lead": (_lead_again, [{*IDS, "late"}]),
}


@pytest.mark.slow
@pytest.mark.parametrize("happening", HAPPENINGS)
def test_whatever_happens_during_a_rebuild_the_engine_equals_the_catalogue(tmp_path, monkeypatch, happening):
    monkeypatch.setattr(rebuilding, "DOCUMENTS_PER_CALL", DOCUMENTS_PER_CALL)
    happen, expected = HAPPENINGS[happening]
    for steps in count():
        (tmp_path / str(steps)).mkdir()
        world = World(tmp_path / str(steps))
        world.fill(count=DOCUMENTS)
        world.engine.delete_collection("docs")
        add("docs", ("late", {}, 11)).run(world.store)
        world.process.drain(rounds=1)
        assert world.state() == states.REBUILDING
        for _ in range(steps):
            world.process.applier.maintain()
        if not world.process.applier.busy_collections():
            world.process.close()
            break
        happen(world)
        world.process.drain()
        world.check()
        check_tables(world.process.path)
        found = [{each[0] for each in documents} for *_, documents in catalog_state(world.process.path).values()]
        assert found == expected, f"after {steps} steps"
        world.process.close()
    assert steps > DOCUMENTS // DOCUMENTS_PER_CALL


def test_a_collection_may_be_made_again_before_the_old_one_is_dropped(tmp_path):
    world = World(tmp_path)
    world.fill()
    _make_anew(world)
    with world.process.catalog.read() as transaction:
        drop, create, documents = outbox.oldest(transaction, limit=10)
    assert (drop.kind, create.kind) == (outbox.DROP, outbox.CREATE)
    for entry in (create, documents, drop):
        world.process.applier.apply([entry])
        world.process.catalog.commit(lambda transaction, entry=entry: outbox.remove(transaction, [entry.id]))
    world.process.drain()
    world.check()


def test_a_collection_deleted_while_the_engine_makes_it_is_gone(tmp_path):
    world = World(tmp_path)
    world.store.create_collection("docs", {}, "l2", OPTIONS)
    deleted = []

    def delete_once(name):
        if name == "create_collection" and not deleted:
            deleted.append(name)
            _delete(world)

    world.process.engine.after = delete_once
    world.process.drain()
    assert deleted
    assert world.engine.list_collections() == []
    world.check()
