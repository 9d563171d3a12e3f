"""Asking in a pool comes back with a value or an error, whatever the work does."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from retrieval.asking import ask_within
from schemas.errors import BusyError, UnavailableError
from tests.support.live import PATIENCE_SECONDS


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as opened:
        yield opened


def test_errors_are_outcomes_and_unexpected_ones_are_in_the_log_alone(pool):
    def fail(error):
        raise error

    busy = BusyError("busy")
    assert ask_within(PATIENCE_SECONDS, pool.submit, lambda: fail(busy))().error is busy
    with pytest.raises(UnavailableError, match="in the log"):
        ask_within(PATIENCE_SECONDS, pool.submit, lambda: fail(ValueError("secret")))().get()
    assert ask_within(1, lambda work: fail(busy), int)().error is busy


def test_work_that_hangs_and_a_pool_that_is_shut_down_are_errors(pool):
    release = threading.Event()
    outcome = ask_within(0.0, pool.submit, release.wait)()
    release.set()
    assert (outcome.error.message, outcome.milliseconds) == ("No answer within 0 s", 0)
    pool.shutdown()
    assert ask_within(1, pool.submit, int)().error.message == "The service stops"
