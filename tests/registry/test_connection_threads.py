"""Threads for connections: a few for each key, a limit for all keys together, and reuse of idle ones."""

import threading
from concurrent.futures import CancelledError

import pytest

from registry.connection_threads import ConnectionThreads
from schemas.errors import BusyError
from tests.support.live import PATIENCE_SECONDS, eventually


@pytest.fixture
def gate():
    gate = threading.Event()
    yield gate
    gate.set()


def test_a_key_that_hangs_holds_up_no_other_and_one_whose_queue_is_full_is_refused(gate):
    threads = ConnectionThreads("test", each=2, most=4)
    stuck = [threads.submit("slow", lambda: gate.wait(PATIENCE_SECONDS)) for _ in range(20)]
    assert [threads.submit("quick", lambda n=n: n).result(PATIENCE_SECONDS) for n in range(20)] == list(range(20))
    assert (threads.threads <= 4, any(each.done() for each in stuck)) == (True, False)
    gate.set()
    assert all(each.result(PATIENCE_SECONDS) for each in stuck)
    threads.close()
    gate.clear()
    threads = ConnectionThreads("test", each=1, queued=2)
    taken = [threads.submit("slow", lambda: gate.wait(PATIENCE_SECONDS)) for _ in range(3)]
    with pytest.raises(BusyError, match="wait for this connection"):
        threads.submit("slow", lambda: None)
    gate.set()
    assert all(each.result(PATIENCE_SECONDS) for each in taken)
    assert threads.submit("slow", lambda: "again").result(PATIENCE_SECONDS) == "again"
    threads.close()


def test_a_thread_takes_one_job_after_the_other_and_an_error_fails_its_own_alone():
    threads = ConnectionThreads("test")
    for number in range(50):
        assert threads.submit(number, lambda number=number: number).result(PATIENCE_SECONDS) == number
    assert threads.threads <= 2  # a result is ready a moment before its thread is idle
    threads.close()
    eventually(lambda: threads.threads == 0)
    threads = ConnectionThreads("test", each=1)
    failing = threads.submit("a", lambda: 1 / 0)
    fine = threads.submit("a", lambda: "fine")
    assert isinstance(failing.exception(PATIENCE_SECONDS), ZeroDivisionError)
    assert fine.result(PATIENCE_SECONDS) == "fine"
    threads.close()


def test_closing_cancels_jobs_that_have_not_begun(gate):
    threads = ConnectionThreads("test", each=1)
    running, waiting = (threads.submit("slow", lambda: gate.wait(PATIENCE_SECONDS)) for _ in range(2))
    eventually(running.running)
    threads.close()
    with pytest.raises(CancelledError):
        waiting.result(PATIENCE_SECONDS)
    with pytest.raises(BusyError, match="closing"):
        threads.submit("slow", lambda: None)
    gate.set()
    assert running.result(PATIENCE_SECONDS)
