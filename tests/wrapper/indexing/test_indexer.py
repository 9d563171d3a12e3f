"""The thread between outbox and engine: order, merging, patience, notification of writers, the lead."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import numpy as np
import pytest

from schemas.records import DocumentBatch
from tests.properties.fake_engine import FakeEngine, Interposed
from tests.support.live import eventually
from wrapper.catalog import writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.index_state import outbox
from wrapper.catalog.names import collection_writes
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.engine.failures import EngineUnavailableError
from wrapper.indexing.applying import Applier
from wrapper.indexing.indexer import IDLE_POLL_SECONDS, MERGED_DOCUMENTS, POLL_SECONDS, Indexer
from wrapper.indexing.leadership import FileLeadership

SECONDS = 30


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Calls:
    """Records the calls of the engine, in order.

    While `gate` is closed it holds up every call, or those that are named, and it raises what is in `failing`.
    """

    def __init__(self, held=None):
        self._held = held
        self.upserts = []
        self.names = []
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Event()
        self.failing = {}

    def before(self, name):
        self.names.append(name)
        if self._held is not None and name not in self._held:
            return
        self.arrived.set()
        assert self.gate.wait(SECONDS)

    def engine(self, fake=None):
        return _Recorded(fake or FakeEngine(), self)


class _Recorded(Interposed):
    def __init__(self, engine, calls):
        super().__init__(engine, before=calls.before)
        self._calls = calls

    def upsert(self, engine_id, ids, *args, **kwargs):
        self._calls.before("upsert")
        held = self.engine.get_collection_name(engine_id)
        self._calls.upserts.append((held, list(ids)))
        if held in self._calls.failing:
            raise self._calls.failing[held]
        self.engine.upsert(engine_id, ids, *args, **kwargs)


class World:
    """One catalogue and one engine; workers are catalogues, appliers and indexers on them."""

    def __init__(self, directory, stack):
        self.directory = directory
        self.calls = Calls()
        self.engine = self.calls.engine()
        self.clock = Clock()
        self.up = True
        self._stack = stack
        self.catalog = self.open_catalog()

    def open_catalog(self):
        catalog = Catalog(SQLiteDatabase(self.directory / "catalog.sqlite"))
        catalog.open()
        self._stack.callback(catalog.close)
        return catalog

    def worker(self, catalog=None, *, leadership=None, engine=None):
        catalog = catalog or self.catalog
        applier = Applier(
            catalog,
            engine or self.engine,
            incarnation=lambda: 1 if self.up else None,
            restart_engine=lambda: None,
            clock=self.clock,
        )
        leadership = leadership or FileLeadership(self.directory / "indexer.lock")
        indexer = Indexer(catalog, applier, leadership, clock=self.clock)
        indexer.start()
        self._stack.callback(self._stop, indexer)
        return indexer

    def _stop(self, indexer):
        self.calls.gate.set()
        indexer.stop(SECONDS)

    def create(self, name):
        return self.catalog.commit(
            lambda transaction: collection_writes.create_collection(transaction, name, {}, "l2")
        )[1].outbox_id

    def add(self, name, *ids, catalog=None, text=None):
        texts = [text or each for each in ids]
        batch = DocumentBatch(list(ids), texts, [{} for _ in ids], np.ones((len(ids), 2), dtype="<f4"))
        return (
            (catalog or self.catalog)
            .commit(lambda transaction: writes.add_documents(transaction, name, batch))
            .outbox_id
        )

    def lag(self):
        with self.catalog.read() as transaction:
            return outbox.lag(transaction)

    def until_applied(self):
        eventually(lambda: self.lag() == 0, seconds=SECONDS)


@pytest.fixture
def world(tmp_path):
    with ExitStack() as stack:
        yield World(tmp_path, stack)


def test_a_waiting_writer_is_told_when_its_write_is_applied(world):
    indexer = world.worker()
    world.create("one")
    entry = world.add("one", "a")
    assert indexer.wait(entry, SECONDS)
    assert world.calls.upserts == [("one", ["a"])]
    world.until_applied()
    assert indexer.wait(entry, 0.0), "a write that is applied already needs no wait"


def test_a_writer_waits_no_longer_than_it_likes(world):
    world.calls.gate.clear()
    indexer = world.worker()
    entry = world.create("one")
    assert not indexer.wait(entry, 0.0)
    world.calls.gate.set()
    assert indexer.wait(entry, SECONDS)


def test_several_may_wait_for_one_write(world):
    world.calls.gate.clear()
    indexer = world.worker()
    entry = world.create("one")
    told = []
    waiters = [threading.Thread(target=lambda: told.append(indexer.wait(entry, SECONDS))) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    assert world.calls.arrived.wait(SECONDS)
    world.calls.gate.set()
    for waiter in waiters:
        waiter.join(SECONDS)
    assert told == [True] * 3


def test_small_writes_that_wait_are_merged(world):
    world.create("one")
    for number in range(40):
        world.add("one", f"{number}-a", f"{number}-b")
    world.worker()
    world.until_applied()
    assert [ids for _, ids in world.calls.upserts] == [[f"{n}-{letter}" for n in range(40) for letter in "ab"]]


def test_merged_writes_have_a_limit(world):
    world.create("one")
    for number in range(12):
        world.add("one", *(f"{number}-{document}" for document in range(100)))
    world.add("one", *(f"large-{document}" for document in range(MERGED_DOCUMENTS + 300)))
    world.worker()
    world.until_applied()
    assert [len(ids) for _, ids in world.calls.upserts] == [500, 500, 200, 500, 300]


def test_writes_of_one_collection_are_applied_in_order(world):
    world.create("one")
    world.create("two")
    for number in range(5):
        world.add("one", f"one-{number}")
        world.add("two", f"two-{number}")
        world.catalog.commit(
            lambda transaction: collection_writes.change_collection_metadata(
                transaction, "one", lambda before: {"a": len(before)}
            )
        )
    world.worker()
    world.until_applied()
    ones = [ids for name, ids in world.calls.upserts if name == "one"]
    assert ones == [[f"one-{number}"] for number in range(5)]
    assert [ids for name, ids in world.calls.upserts if name == "two"] == [[f"two-{number}" for number in range(5)]]


@pytest.mark.parametrize(
    "other",
    [
        lambda transaction: collection_writes.change_collection_metadata(transaction, "one", lambda _: {"x": 1}),
        lambda transaction: collection_writes.empty_collection(transaction, "one"),
        lambda transaction: collection_writes.delete_collection(transaction, "one"),
    ],
    ids=["metadata", "empty", "drop"],
)
def test_writes_of_other_kinds_may_wait_behind_documents(world, other):
    indexer = world.worker()
    assert indexer.wait(world.create("one"), SECONDS)
    world.calls.gate.clear()
    world.add("one", "a")
    world.add("one", "b")
    world.catalog.commit(other)
    world.calls.gate.set()
    world.until_applied()


def test_a_failing_collection_waits_longer_each_time_and_holds_up_no_other(world):
    indexer = world.worker()
    for name in ("bad", "good"):
        assert indexer.wait(world.create(name), SECONDS)
    tries = []

    def refuse(name):
        world.calls.names.append(name)
        if name == "set_collection_metadata":
            tries.append(world.clock.now)
            raise EngineUnavailableError("away")

    world.engine.before = refuse
    failing = world.catalog.commit(
        lambda transaction: collection_writes.change_collection_metadata(transaction, "bad", lambda _: {"x": 1})
    )[1].outbox_id
    for number, pause in enumerate((0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0), start=1):
        eventually(lambda number=number: len(tries) == number, seconds=SECONDS)
        # Another collection's write comes and goes: after the pause, the failing one would have been tried too.
        world.clock.now += pause * 0.9
        assert indexer.wait(world.add("good", f"d{number}"), SECONDS)
        assert len(tries) == number
        world.clock.now += pause * 0.2
    world.engine.before = world.calls.before
    world.clock.now += 10
    assert indexer.wait(failing, SECONDS)


def test_nothing_is_tried_while_there_is_no_engine(world):
    world.up = False
    indexer = world.worker()
    entry = world.create("one")
    assert not indexer.wait(entry, 0.0)
    eventually(lambda: indexer.leads, seconds=SECONDS)
    assert world.calls.names == []
    world.up = True
    assert indexer.wait(entry, SECONDS)


def test_stopping_releases_waiting_writers_and_keeps_their_writes(world):
    world.up = False
    indexer = world.worker()
    entry = world.create("one")
    told = []
    waiter = threading.Thread(target=lambda: told.append(indexer.wait(entry, SECONDS)))
    waiter.start()
    eventually(lambda: indexer._waiting, seconds=SECONDS)
    indexer.stop(SECONDS)
    waiter.join(SECONDS)
    assert told == [False]
    assert world.lag() == 1


def test_one_worker_leads_and_the_next_takes_over(world):
    first = world.worker()
    eventually(lambda: first.leads, seconds=SECONDS)
    catalog = world.open_catalog()
    second = world.worker(catalog)
    assert second.wait(world.create("one"), SECONDS), "a follower is told what the leader applied"
    assert first.leads
    assert not second.leads
    first.stop(SECONDS)
    assert not first.leads
    entry = world.add("one", "a", catalog=catalog)
    assert second.wait(entry, SECONDS)
    assert second.leads
    assert world.calls.upserts == [("one", ["a"])]


def test_a_follower_looks_seldom_while_none_of_its_callers_waits(world, monkeypatch):
    first = world.worker()
    eventually(lambda: first.leads, seconds=SECONDS)
    follower = world.worker(world.open_catalog())
    pauses = []
    wake = follower._wake.wait
    monkeypatch.setattr(follower._wake, "wait", lambda seconds: pauses.append(seconds) or wake(seconds))
    assert first.wait(world.create("one"), SECONDS)
    eventually(lambda: len(pauses) > 3, seconds=SECONDS)
    assert set(pauses) == {IDLE_POLL_SECONDS}
    world.calls.gate.clear()
    waiter = threading.Thread(target=follower.wait, args=(world.add("one", "a"), SECONDS))
    waiter.start()
    eventually(lambda: POLL_SECONDS in pauses, seconds=SECONDS)
    world.calls.gate.set()
    waiter.join(SECONDS)


def test_workers_that_write_at_once_are_all_told(world):
    catalogs = [world.catalog, world.open_catalog(), world.open_catalog()]
    workers = [world.worker(catalog) for catalog in catalogs]
    assert workers[0].wait(world.create("one"), SECONDS)
    told = []

    def write(number):
        for document in range(10):
            entry = world.add("one", f"{number}-{document}", catalog=catalogs[number])
            told.append(workers[number].wait(entry, SECONDS))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert told == [True] * 30
    assert sum(worker.leads for worker in workers) == 1
    assert world.engine.engine.count(world.engine.engine.get_collection("one").id) == 30


def test_an_index_that_a_leader_wrote_after_it_was_cut_off_is_rebuilt(world, postgres):
    from wrapper.catalog.postgres.database import PostgresDatabase
    from wrapper.catalog.postgres.leadership import SHARED_ENGINE, AdvisoryLeadership

    with postgres.catalogue() as url:
        connect = PostgresDatabase(url).connect
        leaderships = [AdvisoryLeadership(connect, SHARED_ENGINE) for _ in range(2)]
        slow = Calls(held={"upsert"})
        first = world.worker(leadership=leaderships[0], engine=slow.engine(world.engine.engine))
        assert first.wait(world.create("one"), SECONDS)
        assert first.wait(world.add("one", "a", text="first"), SECONDS)
        before = len(slow.upserts)
        slow.gate.clear()
        slow.arrived.clear()
        world.add("one", "a", text="old")
        assert slow.arrived.wait(SECONDS)
        with connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", (leaderships[0]._connection.info.backend_pid,))

        catalog = world.open_catalog()
        second = world.worker(catalog, leadership=leaderships[1])
        eventually(lambda: _text(world, "one", "a") == "old", seconds=SECONDS)
        assert second.wait(world.add("one", "a", catalog=catalog, text="new"), SECONDS)
        assert _text(world, "one", "a") == "new"
        slow.gate.set()
        eventually(lambda: len(slow.upserts) > before, seconds=SECONDS)
        eventually(lambda: _verified(world) and "rename_collection" in world.calls.names, seconds=SECONDS)
        eventually(lambda: _text(world, "one", "a") == "new", seconds=SECONDS)
        assert second.leads
        assert not first.leads
        for indexer in (first, second):
            indexer.stop(SECONDS)


def _text(world, name, document_id):
    engine = world.engine.engine
    records = engine.get(engine.get_collection(name).id, include=("documents",))
    return dict(zip(records.ids, records.texts, strict=True)).get(document_id)


def _verified(world):
    """Let the time pass after which the leader checks the indexes."""
    world.clock.now += 61
    return True


def test_a_large_write_is_applied_in_parts_and_holds_up_no_other_collection(world):
    world.create("large")
    world.create("small")
    world.worker()
    world.until_applied()
    world.calls.gate.clear()
    world.add("large", *(f"d{number}" for number in range(4 * MERGED_DOCUMENTS)))
    world.add("small", "one")
    world.calls.gate.set()
    world.until_applied()
    order = [name for name, _ in world.calls.upserts]
    assert order.count("large") == 4
    assert order.index("small") <= 2
    assert [each for name, ids in world.calls.upserts if name == "large" for each in ids] == [
        f"d{number}" for number in range(4 * MERGED_DOCUMENTS)
    ]
