"""Processes beside the one that drains: they wait for it, and take over when it ends."""

from __future__ import annotations

import threading

from tests.support.live import eventually
from tests.wrapper.indexing.workers import SECONDS
from wrapper.indexing.applying import Applier
from wrapper.indexing.indexer import IDLE_POLL_SECONDS, POLL_SECONDS
from wrapper.indexing.leadership import FileLeadership


def test_one_worker_leads_and_the_next_takes_over(world):
    first = world.worker()
    eventually(lambda: first.leads)
    catalog = world.open_catalog()
    second = world.worker(catalog)
    assert second.wait(world.create("one"), SECONDS), "a follower is told what the leader applied"
    assert first.leads
    assert not second.leads
    first.stop(SECONDS)
    assert not first.leads
    world.clock.now += IDLE_POLL_SECONDS
    entry = world.add("one", "a", catalog=catalog)
    assert second.wait(entry, SECONDS)
    assert second.leads
    assert world.calls.upserts == [("one", ["a"])]


def test_a_follower_looks_seldom_while_none_of_its_callers_waits(world, monkeypatch):
    first = world.worker()
    eventually(lambda: first.leads)
    follower = world.worker(world.open_catalog())
    pauses = []
    wake = follower._wake.wait
    monkeypatch.setattr(follower._wake, "wait", lambda seconds: pauses.append(seconds) or wake(seconds))
    assert first.wait(world.create("one"), SECONDS)
    eventually(lambda: len(pauses) > 3)
    assert set(pauses) == {IDLE_POLL_SECONDS}
    world.calls.gate.clear()
    waiter = threading.Thread(target=follower.wait, args=(world.add("one", "a"), SECONDS))
    waiter.start()
    eventually(lambda: POLL_SECONDS in pauses)
    world.calls.gate.set()
    waiter.join(SECONDS)


def test_a_follower_whose_caller_waits_looks_often_and_asks_for_the_lead_seldom(world, monkeypatch):
    asked = []
    acquire = FileLeadership.acquire
    first = world.worker()
    eventually(lambda: first.leads)
    monkeypatch.setattr(FileLeadership, "acquire", lambda lead: asked.append(world.clock.now) or acquire(lead))
    follower = world.worker(world.open_catalog())
    assert first.wait(world.create("one"), SECONDS)
    looks = []
    wake = follower._wake.wait
    monkeypatch.setattr(follower._wake, "wait", lambda seconds: looks.append(seconds) or wake(seconds))
    world.calls.gate.clear()
    waiter = threading.Thread(target=follower.wait, args=(world.add("one", "a"), SECONDS))
    waiter.start()
    eventually(lambda: looks.count(POLL_SECONDS) > 20)
    assert asked == [0.0]
    world.clock.now += IDLE_POLL_SECONDS
    eventually(lambda: len(asked) == 2)
    world.calls.gate.set()
    waiter.join(SECONDS)


def test_a_follower_leaves_maintenance_to_the_leader(world, monkeypatch):
    first = world.worker()
    eventually(lambda: first.leads)
    assert first.wait(world.create("one"), SECONDS)
    monkeypatch.setattr(Applier, "has_work", lambda self: True)
    follower = world.worker(world.open_catalog())
    pauses = []
    wake = follower._wake.wait
    monkeypatch.setattr(follower._wake, "wait", lambda seconds: pauses.append(seconds) or wake(seconds))
    eventually(lambda: len(pauses) > 3)
    assert set(pauses) == {IDLE_POLL_SECONDS}
