"""The thread between outbox and engine: order, merging, patience, notification of writers, the lead."""

from __future__ import annotations

import threading

import pytest

from tests.support.live import eventually
from tests.wrapper.indexing.workers import SECONDS, Calls
from wrapper.catalog.names import collection_writes
from wrapper.engine.failures import EngineUnavailableError
from wrapper.indexing.indexer import MERGED_DOCUMENTS


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
        eventually(lambda number=number: len(tries) == number)
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
    eventually(lambda: indexer.leads)
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
    eventually(lambda: indexer._waiting)
    indexer.stop(SECONDS)
    waiter.join(SECONDS)
    assert told == [False]
    assert world.lag() == 1


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
        eventually(lambda: _text(world, "one", "a") == "old")
        assert second.wait(world.add("one", "a", catalog=catalog, text="new"), SECONDS)
        assert _text(world, "one", "a") == "new"
        slow.gate.set()
        eventually(lambda: len(slow.upserts) > before)
        eventually(lambda: _verified(world) and "rename_collection" in world.calls.names)
        eventually(lambda: _text(world, "one", "a") == "new")
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
