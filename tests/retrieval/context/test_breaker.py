"""The circuit breaker of the contract *context*: its threshold, its times to the millisecond, one for all workers, and what
one caller may not do opens it for nobody."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from types import SimpleNamespace

import pytest

from retrieval.context.breaker import CLOSED, HALF_OPEN, OPEN, SEEN_SECONDS, WAIT_SECONDS, CircuitBreaker, Pass
from retrieval.context.fallback import EMPTY, TEXT, FallbackChain
from schemas.errors import (
    CollectionForbiddenError,
    CollectionNotFoundError,
    InvalidInputError,
    ScopeMissingError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from tests.support.live import PATIENCE_SECONDS, eventually

THRESHOLD, TIMEOUT_SECONDS, PROBE_SECONDS = 5, 60.0, 4.0
A_MILLISECOND = 0.001


@pytest.fixture
def breakers(request, catalogs, clock):
    """`breakers()`: the service's one breaker, each time as another worker has it."""
    wait = WAIT_SECONDS if request.cls is TestWithoutTheDatabase else PATIENCE_SECONDS
    times = {"timeout_seconds": TIMEOUT_SECONDS, "probe_seconds": PROBE_SECONDS, "clock": clock, "wait_seconds": wait}
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(CircuitBreaker(catalogs(), threshold=THRESHOLD, **times)))


@pytest.fixture
def breaker(breakers):
    return breakers()


def fail(breaker, times=THRESHOLD):
    for _ in range(times):
        breaker.failed()


class TestOneWorker:
    def test_it_opens_with_the_fifth_failure_in_a_row(self, breaker):
        fail(breaker, THRESHOLD - 1)
        assert breaker.state() == CLOSED
        assert breaker.enter().is_probe is False
        breaker.succeeded()
        fail(breaker, THRESHOLD - 1)
        assert breaker.state() == CLOSED
        breaker.failed()
        assert (breaker.state(), breaker.enter()) == (OPEN, None)

    def test_it_is_open_at_exactly_the_timeout_after_the_last_failure_also_of_a_probe_and_half_open_just_after(
        self, breaker, clock
    ):
        fail(breaker)
        clock.now += 30
        for _ in range(2):
            breaker.failed()
            clock.now += TIMEOUT_SECONDS
            assert (breaker.state(), breaker.enter()) == (OPEN, None)
            clock.now += A_MILLISECOND
            assert breaker.state() == HALF_OPEN
            assert breaker.enter().is_probe

    def test_a_probe_that_was_given_back_is_anothers(self, breakers, clock):
        breaker, other = breakers(), breakers()
        fail(breaker)
        clock.now += TIMEOUT_SECONDS + A_MILLISECOND
        probe = breaker.enter()
        assert probe.is_probe
        assert other.enter() is None
        breaker.give_back(probe)
        clock.now += SEEN_SECONDS
        assert other.enter().is_probe
        assert breaker.enter() is None

    @pytest.mark.parametrize("same_worker", [True, False])
    def test_one_that_is_given_back_late_frees_no_later_probe(self, breakers, clock, same_worker):
        breaker, third = breakers(), breakers()
        other = breaker if same_worker else breakers()
        fail(breaker)
        clock.now += TIMEOUT_SECONDS + A_MILLISECOND
        late = breaker.enter()
        clock.now += PROBE_SECONDS
        probe = other.enter()
        assert late.is_probe
        assert probe.is_probe
        breaker.give_back(late)
        clock.now += SEEN_SECONDS
        assert [each.enter() for each in (breaker, other, third)] == [None] * 3
        other.give_back(probe)
        clock.now += SEEN_SECONDS
        assert third.enter().is_probe


class TestAllWorkers:
    def test_failures_of_all_count_together(self, breakers, clock):
        workers = [breakers() for _ in range(THRESHOLD)]
        for worker in workers:
            assert worker.state() == CLOSED
            worker.failed()
        clock.now += SEEN_SECONDS
        assert [worker.state() for worker in workers] == [OPEN] * THRESHOLD
        assert breakers().enter() is None, "one that starts later finds it open"

    def test_a_success_of_one_closes_it_for_all(self, breakers, clock):
        first, second = breakers(), breakers()
        fail(first)
        clock.now += TIMEOUT_SECONDS + A_MILLISECOND
        assert second.enter().is_probe
        assert first.enter() is None
        second.succeeded()
        clock.now += SEEN_SECONDS
        assert first.state() == CLOSED
        fail(first, THRESHOLD - 1)
        clock.now += SEEN_SECONDS
        assert second.state() == CLOSED

    @pytest.mark.parametrize("catalogs", ["sqlite", "postgresql"], indirect=True)
    def test_of_all_workers_one_probes(self, breakers, clock):
        workers = [breakers() for _ in range(4)]
        fail(workers[0])
        clock.now += TIMEOUT_SECONDS + A_MILLISECOND
        with ThreadPoolExecutor(4) as pool:
            passes = list(pool.map(lambda worker: worker.enter(), workers))
        assert [each.is_probe for each in passes if each is not None] == [True]

    def test_a_probe_whose_worker_died_is_given_up(self, breakers, clock):
        dead, other = breakers(), breakers()
        fail(dead)
        clock.now += TIMEOUT_SECONDS + A_MILLISECOND
        assert dead.enter().is_probe
        dead.close()
        clock.now += PROBE_SECONDS - A_MILLISECOND
        assert other.enter() is None
        clock.now += A_MILLISECOND
        assert other.enter().is_probe


class TestWithoutTheDatabase:
    """Runs on SQLite with its file locked by another connection; the kind of failure does not matter to the breaker."""

    @pytest.fixture
    def lock(self, tmp_path):
        with closing(sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)) as connection:
            yield connection

    def test_a_worker_goes_by_what_it_saw_and_the_others_learn_it_afterwards(self, breakers, lock, clock):
        breaker, other = breakers(), breakers()
        assert breaker.state() == CLOSED
        lock.execute("BEGIN IMMEDIATE")
        fail(breaker)
        assert breaker.state() == OPEN
        clock.now += SEEN_SECONDS
        assert other.state() == CLOSED
        lock.execute("ROLLBACK")

        def seen():
            clock.now += SEEN_SECONDS
            return breaker.state() == other.state() == OPEN

        eventually(seen)

    def test_one_probe_is_let_through_and_a_closed_catalogue_is_no_failure(self, breakers, lock, clock, catalogs):
        breaker = breakers()
        fail(breaker)
        lock.execute("BEGIN IMMEDIATE")
        clock.now += TIMEOUT_SECONDS + A_MILLISECOND
        assert breaker.enter().is_probe
        assert breaker.enter() is None
        lock.execute("ROLLBACK")
        catalog = catalogs()
        breaker = CircuitBreaker(catalog, threshold=1, timeout_seconds=60, probe_seconds=1, clock=clock)
        catalog.close()
        assert breaker.enter().is_probe is False
        breaker.failed()
        assert breaker.enter() is None
        breaker.close()
        assert breaker.enter() is None


AWAY = UnavailableError("away")
USED_UP = TooManyRequestsError("used up", retry_after_seconds=1, limit="embedded_tokens_per_day")


class Breaker:
    """Counts what it is told."""

    def __init__(self, *, is_probe=False):
        self.failures = self.successes = self.given_back = 0
        self._is_probe = is_probe

    def enter(self):
        self.entered = Pass(is_probe=self._is_probe)
        return self.entered

    def failed(self):
        self.failures += 1

    def succeeded(self):
        self.successes += 1

    def give_back(self, probe):
        assert probe is self.entered
        self.given_back += 1


def raising(error):
    def search(_):
        raise error

    return search


def searched(breaker, by_vector, by_text):
    chain = FallbackChain(raising(by_vector), raising(by_text), lambda: 0, breaker, vector_seconds=60, text_seconds=60)
    try:
        return chain.search("question")
    finally:
        chain.close()


@pytest.mark.parametrize(
    "mine",
    [
        USED_UP,
        InvalidInputError("long"),
        UnauthorizedError("expired"),
        ScopeMissingError("read"),
        CollectionForbiddenError("c"),
    ],
    ids=lambda error: error.code,
)
def test_a_fault_of_the_caller_is_none_of_the_levels_and_failures_of_both_count(mine):
    for by_vector, by_text, failures in ((mine, AWAY, 0), (AWAY, mine, 0), (mine, mine, 0), (AWAY, AWAY, 1)):
        breaker = Breaker()
        assert searched(breaker, by_vector, by_text).level == EMPTY
        assert breaker.failures == failures, (by_vector, by_text)


def test_a_probe_that_ends_like_that_or_asked_for_a_missing_collection_is_left_to_others():
    breaker = Breaker(is_probe=True)
    assert searched(breaker, USED_UP, AWAY).answer is None
    assert (breaker.failures, breaker.successes, breaker.given_back) == (0, 0, 1)
    missing = CollectionNotFoundError("gone")
    for by_vector, by_text in ((missing, AWAY), (AWAY, missing)):
        breaker = Breaker(is_probe=True)
        with pytest.raises(CollectionNotFoundError):
            searched(breaker, by_vector, by_text)
        assert (breaker.failures, breaker.successes, breaker.given_back) == (0, 0, 1)


def test_without_tokens_the_words_answer_and_nothing_counts():
    breaker = Breaker()
    found = SimpleNamespace(receipt=SimpleNamespace(indexed=7))
    chain = FallbackChain(raising(USED_UP), lambda _: found, lambda: 0, breaker, vector_seconds=60, text_seconds=60)
    outcome = chain.search("question")
    chain.close()
    assert (outcome.level, outcome.total_indexed) == (TEXT, 7)
    assert (breaker.failures, breaker.successes) == (0, 0)
