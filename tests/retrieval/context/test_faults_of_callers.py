"""What one caller may not do opens no breaker for the others."""

from __future__ import annotations

import pytest

from retrieval.context.breaker import Pass
from retrieval.context.fallback import EMPTY, TEXT, FallbackChain, Found
from schemas.errors import (
    CollectionForbiddenError,
    CollectionNotFoundError,
    InvalidInputError,
    ScopeMissingError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)

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
def test_a_fault_of_the_caller_is_none_of_the_levels(mine):
    for by_vector, by_text in ((mine, AWAY), (AWAY, mine), (mine, mine)):
        breaker = Breaker()
        assert searched(breaker, by_vector, by_text).level == EMPTY
        assert breaker.failures == 0


def test_failures_of_both_levels_count():
    breaker = Breaker()
    searched(breaker, AWAY, AWAY)
    assert breaker.failures == 1


def test_a_probe_that_ends_like_that_is_left_to_others():
    breaker = Breaker(is_probe=True)
    assert searched(breaker, USED_UP, AWAY).found == Found([], 0)
    assert (breaker.failures, breaker.successes, breaker.given_back) == (0, 0, 1)


def test_so_is_one_that_asked_for_a_missing_collection():
    missing = CollectionNotFoundError("gone")
    for by_vector, by_text in ((missing, AWAY), (AWAY, missing)):
        breaker = Breaker(is_probe=True)
        with pytest.raises(CollectionNotFoundError):
            searched(breaker, by_vector, by_text)
        assert (breaker.failures, breaker.successes, breaker.given_back) == (0, 0, 1)


def test_without_tokens_the_words_answer_and_nothing_counts():
    breaker = Breaker()
    chain = FallbackChain(
        raising(USED_UP), lambda _: Found([], 7), lambda: 0, breaker, vector_seconds=60, text_seconds=60
    )
    outcome = chain.search("question")
    chain.close()
    assert (outcome.level, outcome.found.total_indexed) == (TEXT, 7)
    assert (breaker.failures, breaker.successes) == (0, 0)
