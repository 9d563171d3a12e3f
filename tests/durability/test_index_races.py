"""Whatever happens between two steps of the indexer, the engine equals the catalogue afterwards and nothing is left
over."""

import threading
import time

import numpy as np
import pytest

from schemas.records import DocumentBatch, DocumentPatch
from tests.support.live import eventually
from wrapper.catalog import document_changes, reads, writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.index_state import outbox, states
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import all_collections, find_collection
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.engine.client import EngineClient
from wrapper.engine.keeper.state import EngineStateReader
from wrapper.engine.keeper_process import start_keeper
from wrapper.indexing.applying import Applier
from wrapper.indexing.engine_collections import DOCUMENTS_PER_CALL
from wrapper.indexing.indexer import Indexer
from wrapper.indexing.leadership import FileLeadership


class InterruptedEngine(EngineClient):
    """An engine that runs `meanwhile` once, right after its next creation of a collection."""

    meanwhile = None

    def create_collection(self, *args, **kwargs):
        made = super().create_collection(*args, **kwargs)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return made


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("engine")
    keeper = start_keeper(data_dir)
    state = EngineStateReader(data_dir)
    eventually(lambda: state.read().ready)
    client = InterruptedEngine(state.url)
    yield client
    client.close()
    assert keeper.stop() == 0


@pytest.fixture
def catalog(tmp_path):
    catalog = Catalog(SQLiteDatabase(tmp_path / "catalog.sqlite"))
    catalog.open()
    yield catalog
    catalog.close()


class Room:
    """A catalogue, the engine and the applier that keeps them equal; each test has collections of its own."""

    def __init__(self, catalog, engine):
        self.catalog, self.engine = catalog, engine
        self.applier = self.another_applier()
        self.before = {each.id for each in engine.list_collections()}

    def another_applier(self):
        applier = Applier(self.catalog, self.engine, incarnation=lambda: 1, restart_engine=lambda: None)
        applier.take_over()
        return applier

    def create(self, name):
        self.catalog.commit(lambda transaction: collection_writes.create_collection(transaction, name, {}, "cosine"))

    def add(self, name, ids, dimension=4, **metadata):
        vectors = np.random.default_rng(len(ids)).normal(size=(len(ids), dimension)).astype("<f4")
        batch = DocumentBatch(list(ids), [f"text of {each}" for each in ids], [metadata for _ in ids], vectors)
        self.catalog.commit(lambda transaction: writes.add_documents(transaction, name, batch))

    def delete(self, name):
        self.catalog.commit(lambda transaction: collection_writes.delete_collection(transaction, name))

    def empty(self, name):
        self.catalog.commit(lambda transaction: collection_writes.empty_collection(transaction, name))

    def entries(self):
        with self.catalog.read() as transaction:
            return outbox.oldest(transaction, limit=1000)

    def apply(self, *entries):
        for entry in entries:
            self.applier.apply([entry])
            self.catalog.commit(lambda transaction, entry=entry: outbox.remove(transaction, [entry.id]))

    def settle(self):
        """Apply and maintain until nothing is left to do."""
        self.applier.maintain()
        for _ in range(1000):
            ready = [each for each in self.entries() if each.collection_key not in self.applier.busy_collections()]
            self.apply(*ready)
            if not self.applier.has_work() and not self.entries():
                break
            self.applier.maintain()
        assert not self.entries()
        self.assert_equal()

    def assert_equal(self):
        with self.catalog.read() as transaction:
            stored = {
                each.name: (each, reads.in_insertion_order(transaction, each, after=0, limit=5000))
                for each in all_collections(transaction)
            }
        held = {each.name: each.id for each in self.engine.list_collections() if each.id not in self.before}
        assert held == {name: each.engine_id for name, (each, _) in stored.items()}
        for collection, documents in stored.values():
            assert collection.index_state == states.READY
            records = self.engine.get(collection.engine_id, include=("documents", "metadatas", "embeddings"))
            place = {document_id: place for place, document_id in enumerate(records.ids)}
            assert sorted(place) == sorted(each.id for each in documents)
            for each in documents:
                assert records.texts[place[each.id]] == each.text
                assert records.metadatas[place[each.id]] == each.metadata
                # Chroma scales cosine vectors back to their length, which costs the last bits.
                assert np.allclose(records.embeddings[place[each.id]], each.embedding, rtol=1e-5, atol=1e-6)

    def forget(self):
        for each in self.engine.list_collections():
            if each.id not in self.before:
                self.engine.delete_collection(each.name)

    def damage(self, name):
        """Make the engine lose the collection."""
        assert self.engine.delete_collection(name)


@pytest.fixture
def room(catalog, engine):
    room = Room(catalog, engine)
    yield room
    engine.meanwhile = None
    room.forget()


def test_a_collection_may_be_recreated_before_the_old_one_is_dropped(room):
    room.create("again")
    room.add("again", ["a", "b"])
    room.settle()
    room.delete("again")
    room.create("again")
    room.add("again", ["c"])
    drop, create, documents = room.entries()
    assert (drop.kind, create.kind) == (outbox.DROP, outbox.CREATE)
    room.apply(create, documents, drop)
    room.settle()


def test_applying_a_creation_twice_keeps_later_writes(room):
    room.create("twice")
    room.add("twice", ["a"])
    create, documents = room.entries()
    room.applier.apply([create])
    room.applier.apply([documents])
    room.apply(create)
    room.assert_equal()
    room.settle()


def test_a_collection_deleted_while_the_engine_creates_it_is_gone(room):
    room.create("brief")
    room.engine.meanwhile = lambda: room.delete("brief")
    room.settle()
    assert {each.id for each in room.engine.list_collections()} == room.before


def test_a_collection_deleted_during_its_rebuild_is_gone(room):
    room.create("rebuilt")
    room.add("rebuilt", [f"d{number}" for number in range(DOCUMENTS_PER_CALL + 1)])
    room.settle()
    room.damage("rebuilt")
    room.add("rebuilt", ["late"])
    with pytest.raises(Exception, match="does not have this collection"):
        room.apply(*room.entries())
    room.applier.maintain()
    assert room.applier.busy_collections()
    room.delete("rebuilt")
    room.settle()
    assert {each.id for each in room.engine.list_collections()} == room.before


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_writes_during_a_rebuild_are_in_the_new_index(room, steps):
    ids = [f"d{number}" for number in range(DOCUMENTS_PER_CALL + 20)]
    room.create("busy")
    room.add("busy", ids, draft=True)
    room.settle()
    room.damage("busy")
    room.add("busy", ["late"])
    with pytest.raises(Exception, match="does not have this collection"):
        room.apply(*room.entries())
    for _ in range(steps):
        room.applier.maintain()
    room.add("busy", [ids[0], ids[-1], "new"], page=1)
    room.catalog.commit(lambda transaction: writes.delete_documents(transaction, "busy", ids=[ids[1], ids[-2]]))
    room.catalog.commit(
        lambda transaction: document_changes.patch_document(
            transaction, "busy", ids[2], DocumentPatch(metadata={"draft": None})
        )
    )
    room.settle()


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_collection_may_take_another_dimension_during_its_rebuild(room, steps):
    room.create("turned")
    room.add("turned", [f"d{number}" for number in range(DOCUMENTS_PER_CALL + 20)])
    room.settle()
    room.damage("turned")
    room.add("turned", ["late"])
    with pytest.raises(Exception, match="does not have this collection"):
        room.apply(*room.entries())
    for _ in range(steps):
        room.applier.maintain()
    room.empty("turned")
    room.add("turned", ["a", "b", "c"], dimension=7)
    room.settle()


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_another_process_may_take_over_in_the_middle_of_a_rebuild(room, steps):
    room.create("taken")
    room.add("taken", [f"d{number}" for number in range(DOCUMENTS_PER_CALL * 2)])
    room.settle()
    room.damage("taken")
    room.add("taken", ["late"])
    with pytest.raises(Exception, match="does not have this collection"):
        room.apply(*room.entries())
    for _ in range(steps):
        room.applier.maintain()
    room.applier = room.another_applier()
    with room.catalog.read() as transaction:
        assert find_collection(transaction, "taken").index_state == states.REBUILDING
    room.settle()


def test_records_that_the_engine_lost_or_got_from_others_are_noticed(room):
    room.create("counted")
    room.add("counted", [f"d{number}" for number in range(50)])
    room.settle()
    with room.catalog.read() as transaction:
        collection = find_collection(transaction, "counted")
    room.engine.delete(collection.engine_id, ["d7"])
    room.applier = room.another_applier()
    room.settle()


def test_a_writer_that_starts_to_wait_too_late_is_answered_at_once(room, tmp_path):
    indexer = Indexer(room.catalog, room.applier, FileLeadership(tmp_path / "lock"), clock=time.monotonic)
    indexer.start()
    try:
        room.create("late")
        (waiting,) = [each.id for each in room.entries()] or [1]
        eventually(lambda: not room.entries())
        answers = []
        thread = threading.Thread(target=lambda: answers.append(indexer.wait(waiting, 600)))
        thread.start()
        thread.join(30)
        assert answers == [True]
    finally:
        indexer.stop(30)


def test_a_writer_that_waits_when_the_service_stops_is_told_not_yet(room, tmp_path):
    room.applier.engine_is_ready = lambda: False
    indexer = Indexer(room.catalog, room.applier, FileLeadership(tmp_path / "lock"), clock=time.monotonic)
    indexer.start()
    room.create("waiting")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(indexer.wait(room.entries()[0].id, 600)))
    thread.start()
    eventually(lambda: indexer._waiting)
    indexer.stop(30)
    thread.join(30)
    assert answers == [False]
