"""A worker leaves connections to the one that has fewer, but not for long."""

import os

import pytest

from tests.wrapper.clock import Clock
from wrapper.serving.fair_share import LEFT_TO_OTHERS_SECONDS, PAUSE_SECONDS, ConnectionCounts, FairShare


class SleepingClock(Clock):
    def sleep(self, seconds):
        self.now += seconds


def _share(counts, clock, connections):
    share = FairShare(counts, counts.take(), clock, clock.sleep)
    share.tell(connections)
    return share


def test_a_worker_alone_or_with_no_more_connections_than_another_takes_the_next():
    counts, clock = ConnectionCounts(4), SleepingClock(100.0)
    one = _share(counts, clock, 3)
    assert not one.leaves_to_others(3)
    _share(counts, clock, 3)
    assert not one.leaves_to_others(3)
    assert not one.leaves_to_others(2)


def test_a_worker_with_more_connections_leaves_the_next_to_the_other_for_a_moment():
    counts, clock = ConnectionCounts(4), SleepingClock(100.0)
    one, other = _share(counts, clock, 4), _share(counts, clock, 3)
    began, pauses = clock.now, 0
    while one.leaves_to_others(4):
        pauses += 1
        assert pauses < 100
    assert clock.now - began == pytest.approx(LEFT_TO_OTHERS_SECONDS, abs=PAUSE_SECONDS)
    assert one.leaves_to_others(4)  # the next one
    other.tell(4)
    assert not one.leaves_to_others(4)


def test_a_worker_that_has_not_begun_or_has_ended_is_not_waited_for():
    counts, clock = ConnectionCounts(2), SleepingClock(100.0)
    one = _share(counts, clock, 7)
    slot = counts.take()
    assert not one.leaves_to_others(7)
    counts.write(slot, 0)
    assert one.leaves_to_others(7)
    counts.free(slot)
    assert not one.leaves_to_others(7)


def test_more_workers_than_slots_have_none():
    counts = ConnectionCounts(1)
    assert (counts.take(), counts.take()) == (0, None)
    counts.free(None)
    counts.free(0)
    assert counts.take() == 0


def test_forked_processes_see_each_others_counts():
    counts = ConnectionCounts(2)
    slot = counts.take()
    child = os.fork()
    if child == 0:
        counts.write(slot, 5)
        os._exit(0)
    os.waitpid(child, 0)
    assert counts.fewest() == 5
