"""Processes beside the one that drains: they wait for it, and take over when it ends."""

import threading

import pytest

from tests.support.live import eventually
from tests.wrapper.indexing.workers import SECONDS
from wrapper.indexing.applying import Applier
from wrapper.indexing.indexer import IDLE_POLL_SECONDS, POLL_SECONDS
from wrapper.indexing.leadership import FileLeadership


@pytest.fixture
def pauses_of(monkeypatch):
    """`pauses_of(worker)`: the list to which each pause of a worker is added, in seconds."""

    def watch(worker):
        pauses, wait = [], worker._wake.wait
        monkeypatch.setattr(worker._wake, "wait", lambda seconds: pauses.append(seconds) or wait(seconds))
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


def test_a_follower_looks_seldom_while_none_of_its_callers_waits(workers, pauses_of):
    first = workers.worker()
    eventually(lambda: first.leads)
    follower = workers.worker(workers.open_catalog())
    pauses = pauses_of(follower)
    assert first.wait(workers.create("one"), SECONDS)
    eventually(lambda: len(pauses) > 3)
    assert set(pauses) == {IDLE_POLL_SECONDS}
    workers.calls.gate.clear()
    waiter = threading.Thread(target=follower.wait, args=(workers.add("one", "a"), SECONDS))
    waiter.start()
    eventually(lambda: POLL_SECONDS in pauses)
    workers.calls.gate.set()
    waiter.join(SECONDS)


def test_a_follower_whose_caller_waits_looks_often_and_asks_for_the_lead_seldom(workers, monkeypatch, pauses_of):
    asked = []
    acquire = FileLeadership.acquire
    first = workers.worker()
    eventually(lambda: first.leads)
    monkeypatch.setattr(FileLeadership, "acquire", lambda lead: asked.append(workers.clock.now) or acquire(lead))
    follower = workers.worker(workers.open_catalog())
    assert first.wait(workers.create("one"), SECONDS)
    looks = pauses_of(follower)
    workers.calls.gate.clear()
    waiter = threading.Thread(target=follower.wait, args=(workers.add("one", "a"), SECONDS))
    waiter.start()
    eventually(lambda: looks.count(POLL_SECONDS) > 20)
    assert asked == [0.0]
    workers.clock.now += IDLE_POLL_SECONDS
    eventually(lambda: len(asked) == 2)
    workers.calls.gate.set()
    waiter.join(SECONDS)


def test_a_follower_leaves_maintenance_to_the_leader(workers, monkeypatch, pauses_of):
    first = workers.worker()
    eventually(lambda: first.leads)
    assert first.wait(workers.create("one"), SECONDS)
    monkeypatch.setattr(Applier, "has_work", lambda self: True)
    follower = workers.worker(workers.open_catalog())
    pauses = pauses_of(follower)
    eventually(lambda: len(pauses) > 3)
    assert set(pauses) == {IDLE_POLL_SECONDS}
