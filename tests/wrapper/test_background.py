"""Checks that may hang run in the background, so that nobody who asks for their result waits for them."""

import threading

import pytest

from tests.support.live import PATIENCE_SECONDS, eventually
from tests.wrapper.clock import Clock
from wrapper.background import Look, Looks


@pytest.fixture
def looks():
    looks = Looks()
    yield looks
    looks.close()


def test_the_last_result_is_returned_with_its_age():
    clock, found = Clock(100.0), iter(range(1_000_000))
    look = Look("counting", lambda: next(found), None, every_seconds=1e-3, limit_seconds=5, clock=clock)
    assert look.last().found is None
    look.start()
    eventually(lambda: (look.last().found or 0) > 2)
    look.end()
    look.join()
    clock.now += 3
    seen = look.last()
    assert (seen.age_seconds, seen.is_late) == (3, False)
    clock.now += 3
    assert look.last().is_late


def test_a_look_that_hangs_is_late_and_ages_no_other(looks):
    gate, asked = threading.Event(), threading.Event()

    def hang():
        asked.set()
        gate.wait()
        return "answered"

    hanging = looks.add("hanging", hang, "nothing yet", every_seconds=1e-3, limit_seconds=1e-3)
    other = looks.add("other", lambda: "seen", "nothing yet", every_seconds=1e-3, limit_seconds=60)
    try:
        assert asked.wait(PATIENCE_SECONDS)
        eventually(lambda: hanging.last().is_late)
        eventually(lambda: other.last().found == "seen")
        assert (hanging.last().found, other.last().is_late) == ("nothing yet", False)
    finally:
        gate.set()
    eventually(lambda: hanging.last().found == "answered")


def test_a_look_that_fails_leaves_what_was_seen_before(looks):
    found = iter(["well"])
    failed = threading.Event()

    def fail():
        try:
            return next(found)
        except StopIteration:
            failed.set()
            raise ZeroDivisionError from None

    look = looks.add("failing", fail, "nothing yet", every_seconds=1e-3, limit_seconds=1e-3)
    assert failed.wait(PATIENCE_SECONDS)
    assert look.last().found == "well"
    eventually(lambda: look.last().is_late)
