"""The thread between outbox and engine: order, merging, patience, notification of writers, the lead; and processes beside
the one that drains, which wait for it and take over when it ends."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from schemas.giving_way import LOOK_SECONDS, MOST_SECONDS, Questions
from schemas.storage.leadership import FileLeadership
from tests.support.live import eventually
from tests.wrapper.indexing.workers import SECONDS, Calls
from wrapper.catalog.names import collection_writes
from wrapper.engine.failures import EngineUnavailableError
from wrapper.indexing import indexer as indexing
from wrapper.indexing.bell import Bell
from wrapper.indexing.indexer import IDLE_POLL_SECONDS, MERGED_DOCUMENTS, POLL_SECONDS


def test_a_waiting_writer_is_told_when_its_write_is_applied(workers):
    indexer = workers.worker()
    workers.create("one")
    entry = workers.add("one", "a")
    assert indexer.wait(entry, SECONDS)
    assert workers.calls.upserts == [("one", ["a"])]
    workers.until_applied()
    assert indexer.wait(entry, 0.0), "a write that is applied already needs no wait"


def test_the_engine_is_called_beside_a_question_after_a_while_and_at_once_if_a_request_waits_for_it(
    workers, monkeypatch
):
    waits, ticks = [], count(1_000.0, 0.001)
    questions = Questions(lambda: next(ticks) + sum(waits), waits.append)
    monkeypatch.setattr(indexing, "QUESTIONS", questions)
    indexer = workers.worker()
    assert indexer.wait(workers.create("one"), SECONDS)
    with questions.answering():
        assert indexer.wait(workers.add("one", "a"), SECONDS)
        assert waits == []
        with questions.given_way():
            assert indexer.wait(workers.add("one", "b"), SECONDS)
    assert 0 < sum(waits) < MOST_SECONDS + LOOK_SECONDS


def test_several_may_wait_for_one_write_and_none_longer_than_it_likes(workers):
    workers.calls.gate.clear()
    indexer = workers.worker()
    entry = workers.create("one")
    assert not indexer.wait(entry, 0.0)
    with ThreadPoolExecutor(3) as threads:
        told = [threads.submit(indexer.wait, entry, SECONDS) for _ in range(3)]
        assert workers.calls.arrived.wait(SECONDS)
        workers.calls.gate.set()
        assert [each.result(SECONDS) for each in told] == [True] * 3


def test_small_writes_that_wait_are_merged_up_to_a_limit(workers):
    for name in ("small", "more"):
        workers.create(name)
    for number in range(40):
        workers.add("small", f"{number}-a", f"{number}-b")
    for number in range(12):
        workers.add("more", *(f"{number}-{document}" for document in range(100)))
    workers.add("more", *(f"large-{document}" for document in range(MERGED_DOCUMENTS + 300)))
    workers.worker()
    workers.until_applied()
    small = [ids for name, ids in workers.calls.upserts if name == "small"]
    assert small == [[f"{n}-{letter}" for n in range(40) for letter in "ab"]]
    assert [len(ids) for name, ids in workers.calls.upserts if name == "more"] == [500, 500, 200, 500, 300]


def test_writes_of_one_collection_are_applied_in_order(workers):
    workers.create("one")
    workers.create("two")
    for number in range(5):
        workers.add("one", f"one-{number}")
        workers.add("two", f"two-{number}")
        workers.catalog.commit(
            lambda transaction: collection_writes.change_collection_metadata(
                transaction, "one", lambda before: {"a": len(before)}
            )
        )
    workers.worker()
    workers.until_applied()
    ones = [ids for name, ids in workers.calls.upserts if name == "one"]
    assert ones == [[f"one-{number}"] for number in range(5)]
    assert [ids for name, ids in workers.calls.upserts if name == "two"] == [[f"two-{number}" for number in range(5)]]


def test_a_failing_collection_waits_longer_each_time_and_holds_up_no_other(workers):
    indexer = workers.worker()
    for name in ("bad", "good"):
        assert indexer.wait(workers.create(name), SECONDS)
    tries = []

    def refuse(name):
        workers.calls.names.append(name)
        if name == "set_collection_metadata":
            tries.append(workers.clock.now)
            raise EngineUnavailableError("away")

    workers.engine.before = refuse
    failing = workers.catalog.commit(
        lambda transaction: collection_writes.change_collection_metadata(transaction, "bad", lambda _: {"x": 1})
    )[1].outbox_id
    for number, pause in enumerate((0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0), start=1):
        eventually(lambda number=number: len(tries) == number)
        # Another collection's write comes and goes: after the pause, the failing one would have been tried too.
        workers.clock.now += pause * 0.9
        assert indexer.wait(workers.add("good", f"d{number}"), SECONDS)
        assert len(tries) == number
        workers.clock.now += pause * 0.2
    workers.engine.before = workers.calls.before
    workers.clock.now += 10
    assert indexer.wait(failing, SECONDS)


def test_nothing_is_tried_while_there_is_no_engine(workers):
    workers.up = False
    indexer = workers.worker()
    entry = workers.create("one")
    assert not indexer.wait(entry, 0.0)
    eventually(lambda: indexer.leads)
    assert workers.calls.names == []
    workers.up = True
    assert indexer.wait(entry, SECONDS)


def test_stopping_releases_waiting_writers_and_keeps_their_writes(workers):
    workers.up = False
    indexer = workers.worker()
    entry = workers.create("one")
    with ThreadPoolExecutor(1) as threads:
        told = threads.submit(indexer.wait, entry, SECONDS)
        eventually(lambda: indexer._waiting)
        indexer.stop(SECONDS)
        assert told.result(SECONDS) is False
    assert workers.lag() == 1


def test_an_index_that_a_leader_wrote_after_it_was_cut_off_is_rebuilt(workers, postgres):
    from wrapper.catalog.postgres.database import PostgresDatabase
    from wrapper.catalog.postgres.leadership import SHARED_ENGINE, AdvisoryLeadership

    with postgres.catalogue() as url:
        connect = PostgresDatabase(url).connect
        leaderships = [AdvisoryLeadership(connect, SHARED_ENGINE) for _ in range(2)]
        slow = Calls(held={"upsert"})
        first = workers.worker(leadership=leaderships[0], engine=slow.engine(workers.engine.engine))
        assert first.wait(workers.create("one"), SECONDS)
        assert first.wait(workers.add("one", "a", text="first"), SECONDS)
        before = len(slow.upserts)
        slow.gate.clear()
        slow.arrived.clear()
        workers.add("one", "a", text="old")
        assert slow.arrived.wait(SECONDS)
        with connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", (leaderships[0]._connection.info.backend_pid,))

        catalog = workers.open_catalog()
        second = workers.worker(catalog, leadership=leaderships[1])
        eventually(lambda: _text(workers, "one", "a") == "old")
        assert second.wait(workers.add("one", "a", catalog=catalog, text="new"), SECONDS)
        assert _text(workers, "one", "a") == "new"
        slow.gate.set()
        eventually(lambda: len(slow.upserts) > before)
        eventually(lambda: _verified(workers) and "rename_collection" in workers.calls.names)
        eventually(lambda: _text(workers, "one", "a") == "new")
        assert second.leads
        assert not first.leads
        for indexer in (first, second):
            indexer.stop(SECONDS)


def _text(workers, name, document_id):
    engine = workers.engine.engine
    records = engine.get(engine.get_collection(name).id, include=("documents",))
    return dict(zip(records.ids, records.texts, strict=True)).get(document_id)


def _verified(workers):
    """Let the time pass after which the leader checks the indexes."""
    workers.clock.now += 61
    return True


def test_a_large_write_is_applied_in_parts_and_holds_up_no_other_collection(workers):
    workers.create("large")
    workers.create("small")
    workers.worker()
    workers.until_applied()
    workers.calls.gate.clear()
    workers.add("large", *(f"d{number}" for number in range(4 * MERGED_DOCUMENTS)))
    workers.add("small", "one")
    workers.calls.gate.set()
    workers.until_applied()
    order = [name for name, _ in workers.calls.upserts]
    assert order.count("large") == 4
    assert order.index("small") <= 2
    assert [each for name, ids in workers.calls.upserts if name == "large" for each in ids] == [
        f"d{number}" for number in range(4 * MERGED_DOCUMENTS)
    ]


@pytest.fixture
def pauses_of(monkeypatch):
    """`pauses_of(worker)`: the list to which each pause of a worker is added, in seconds."""

    def watch(worker):
        pauses, wait = [], worker._wake.wait
        monkeypatch.setattr(
            worker._wake, "wait", lambda seconds, *others: pauses.append(seconds) or wait(seconds, *others)
        )
        return pauses

    return watch


def test_one_worker_leads_and_the_next_takes_over(workers):
    first = workers.worker()
    eventually(lambda: first.leads)
    catalog = workers.open_catalog()
    second = workers.worker(catalog)
    assert second.wait(workers.create("one"), SECONDS), "a follower is told what the leader applied"
    assert first.leads
    assert not second.leads
    first.stop(SECONDS)
    assert not first.leads
    workers.clock.now += IDLE_POLL_SECONDS
    entry = workers.add("one", "a", catalog=catalog)
    assert second.wait(entry, SECONDS)
    assert second.leads
    assert workers.calls.upserts == [("one", ["a"])]


@pytest.mark.parametrize("meanwhile", [lambda fifo: None, Path.unlink, lambda fifo: fifo.rename(fifo.parent / "gone")])
def test_a_leader_is_woken_by_another_process(tmp_path, meanwhile):
    fifo = tmp_path / "bell"
    fifo.touch()  # not ours, and always readable
    leader, other = Bell(fifo), Bell(fifo)
    other.ring()  # nobody listens yet
    leader.listen()
    meanwhile(fifo)
    leader.listen()
    waiting = threading.Thread(target=leader.wait, args=(10 * SECONDS,))
    waiting.start()
    other.ring()
    waiting.join(SECONDS)
    assert not waiting.is_alive()
    for each in (leader, other):
        each.close()
        each.set()
    other.ring()


def test_a_follower_looks_often_while_a_caller_waits_asks_for_the_lead_seldom_and_maintains_nothing(
    workers, monkeypatch, pauses_of
):
    asked = []

    class Asked(FileLeadership):
        def acquire(self):
            asked.append(workers.clock.now)
            return super().acquire()

    first = workers.worker()
    eventually(lambda: first.leads)
    follower = workers.worker(workers.open_catalog(), leadership=Asked(workers.directory / "indexer.lock"))
    pauses = pauses_of(follower)
    assert first.wait(workers.create("one"), SECONDS)
    with monkeypatch.context() as patch:
        patch.setattr(follower._applier, "has_work", lambda: True)
        eventually(lambda: follower._wake.set() or len(pauses) > 3)
    assert set(pauses) == {IDLE_POLL_SECONDS}
    workers.calls.gate.clear()
    waiter = threading.Thread(target=follower.wait, args=(workers.add("one", "a"), SECONDS))
    waiter.start()
    eventually(lambda: pauses.count(POLL_SECONDS) > 5)
    assert asked == [0.0]
    workers.clock.now += IDLE_POLL_SECONDS
    eventually(lambda: len(asked) == 2)
    workers.calls.gate.set()
    waiter.join(SECONDS)
