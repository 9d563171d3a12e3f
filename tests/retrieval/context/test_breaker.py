"""The circuit breaker of the contract *context*: its threshold, its times to the millisecond, one probe at a time, and what
one caller may not do opens it for nobody."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from retrieval.context.fallback import CLOSED, EMPTY, HALF_OPEN, OPEN, TEXT, VECTOR, CircuitBreaker, FallbackChain
from schemas.errors import (
    CollectionForbiddenError,
    CollectionNotFoundError,
    InvalidInputError,
    ScopeMissingError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)

THRESHOLD, TIMEOUT_SECONDS = 5, 60.0
A_MILLISECOND = 0.001


@pytest.fixture
def breaker(clock):
    return CircuitBreaker(threshold=THRESHOLD, timeout_seconds=TIMEOUT_SECONDS, clock=clock)


@pytest.fixture
def half_open(breaker, clock):
    fail(breaker)
    clock.now += TIMEOUT_SECONDS + A_MILLISECOND
    return breaker


def fail(breaker, times=THRESHOLD):
    for _ in range(times):
        breaker.failed()


def test_it_opens_with_the_fifth_failure_in_a_row(breaker):
    fail(breaker, THRESHOLD - 1)
    assert breaker.state() == CLOSED
    assert breaker.enter() == CLOSED
    breaker.succeeded()
    fail(breaker, THRESHOLD - 1)
    assert breaker.state() == CLOSED
    breaker.failed()
    assert (breaker.state(), breaker.enter()) == (OPEN, None)


def test_it_is_open_at_exactly_the_timeout_after_the_last_failure_also_of_a_probe_and_half_open_just_after(
    breaker, clock
):
    fail(breaker)
    clock.now += 30
    for _ in range(2):
        breaker.failed()
        clock.now += TIMEOUT_SECONDS
        assert (breaker.state(), breaker.enter()) == (OPEN, None)
        clock.now += A_MILLISECOND
        assert breaker.state() == HALF_OPEN
        assert breaker.enter() == HALF_OPEN


def test_one_caller_probes_at_a_time_and_a_success_closes_it(half_open):
    with ThreadPoolExecutor(4) as pool:
        passes = list(pool.map(lambda _: half_open.enter(), range(4)))
    assert [each for each in passes if each is not None] == [HALF_OPEN]
    half_open.give_back()
    assert half_open.enter() == HALF_OPEN
    half_open.succeeded()
    fail(half_open, THRESHOLD - 1)
    assert half_open.state() == CLOSED


AWAY = UnavailableError("away")
USED_UP = TooManyRequestsError("used up", retry_after_seconds=1, limit="embedded_tokens_per_day")


def counted(breaker):
    """Return how often a breaker was told of failures and successes, and given back."""
    return breaker.failed.call_count, breaker.succeeded.call_count, breaker.give_back.call_count


def answering(outcome):
    def search(_):
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return search


def searched(breaker, by_vector, by_text):
    chain = FallbackChain(
        answering(by_vector), answering(by_text), lambda: 0, breaker, vector_seconds=60, text_seconds=60
    )
    try:
        return chain.search("question")
    finally:
        chain.close()


FOUND = SimpleNamespace(receipt=SimpleNamespace(indexed=7))


@pytest.mark.parametrize(
    ("entered", "by_vector", "by_text", "level", "told"),
    [
        (CLOSED, FOUND, AWAY, VECTOR, (0, 1, 0)),
        (CLOSED, AWAY, FOUND, TEXT, (0, 0, 0)),
        (CLOSED, AWAY, AWAY, EMPTY, (1, 0, 0)),
        (HALF_OPEN, AWAY, FOUND, TEXT, (0, 1, 0)),
        (HALF_OPEN, AWAY, AWAY, EMPTY, (1, 0, 0)),
        (HALF_OPEN, USED_UP, AWAY, EMPTY, (0, 0, 1)),
    ],
)
def test_an_answer_by_words_closes_it_as_a_probe_alone_and_a_failure_of_both_levels_counts(
    entered, by_vector, by_text, level, told
):
    breaker = Mock(**{"enter.return_value": entered})
    outcome = searched(breaker, by_vector, by_text)
    assert (outcome.level, outcome.total_indexed, counted(breaker)) == (level, 0 if level == EMPTY else 7, told)


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
def test_a_fault_of_the_caller_is_none_of_the_levels(mine):
    for by_vector, by_text in ((mine, AWAY), (AWAY, mine), (mine, mine)):
        breaker = Mock(**{"enter.return_value": CLOSED})
        assert searched(breaker, by_vector, by_text).level == EMPTY
        assert counted(breaker) == (0, 0, 0), (by_vector, by_text)


def test_a_probe_that_asked_for_a_missing_collection_is_left_to_others():
    missing = CollectionNotFoundError("gone")
    for by_vector, by_text in ((missing, AWAY), (AWAY, missing)):
        breaker = Mock(**{"enter.return_value": HALF_OPEN})
        with pytest.raises(CollectionNotFoundError):
            searched(breaker, by_vector, by_text)
        assert counted(breaker) == (0, 0, 1)
