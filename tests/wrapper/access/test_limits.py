"""The limits of requests of one caller, by a clock of the test's own."""

from dataclasses import replace

import pytest

from schemas.access.callers import Caller, Kind, Limits, Scope
from schemas.errors import ConcurrencyLimitedError, TooManyRequestsError
from wrapper.access.limits import RequestLimits, Standing
from wrapper.access.shared_counts import SharedCounts
from wrapper.web.limit_headers import policies_of


@pytest.fixture
def limits(tmp_path, clock):
    opened = RequestLimits(SharedCounts(tmp_path / "limits.counts", clock))
    yield opened
    opened.close()


def caller(owner="key:aaaaaaaa", **limits):
    return Caller("aaaaaaaa", "a", Kind.KEY, frozenset({Scope.READ}), owner, limits=Limits(**limits))


@pytest.mark.parametrize(
    ("rates", "at_once", "seconds"),
    [
        ({"requests_per_second": 2, "burst": 5}, 5, 0.5),
        ({"requests_per_second": 2.5}, 3, 0.4),
        ({"requests_per_second": 0.01}, 1, 100),
    ],
    ids=["a burst", "as many as a second allows", "less than one a second"],
)
def test_so_many_are_let_in_at_once_and_then_one_request_after_the_other(limits, clock, rates, at_once, seconds):
    asking = caller(**rates)
    assert [limits.admit(asking).refusal is None for _ in range(at_once + 1)] == [True] * at_once + [False]
    refusal = limits.admit(asking).refusal
    assert isinstance(refusal, TooManyRequestsError)
    assert refusal.retry_after_seconds == max(1, seconds)
    clock.now += seconds
    assert limits.admit(asking).refusal is None
    assert limits.admit(asking).refusal is not None


def test_whoever_waits_as_told_is_let_in(limits, clock):
    asking = caller(requests_per_second=0.3, burst=2)
    for _ in range(20):
        admission = limits.admit(asking)
        if admission.refusal is not None:
            clock.now += admission.refusal.retry_after_seconds
            assert limits.admit(asking).refusal is None


def test_an_answer_says_how_the_caller_stands(limits, clock):
    asking = caller(requests_per_second=1, burst=3, concurrent=2)
    assert limits.admit(asking).standings == [Standing("requests_per_second", 2, 1), Standing("concurrent", 1)]
    assert limits.admit(asking).standings == [Standing("requests_per_second", 1, 2), Standing("concurrent", 0)]
    refused = limits.admit(asking)
    assert refused.standings == [Standing("requests_per_second", 0, 1), Standing("concurrent", 0, 1)]
    assert isinstance(refused.refusal, ConcurrencyLimitedError)
    assert refused.refusal.code == "concurrency_limited"


def test_a_place_is_given_back_once_and_by_none_that_was_refused(limits):
    asking = caller(concurrent=1)
    first, refused = limits.admit(asking), limits.admit(asking)
    limits.end(asking, refused)
    assert limits.admit(asking).refusal is not None
    limits.end(asking, first)
    limits.end(asking, first)
    second = limits.admit(asking)
    assert second.refusal is None
    limits.end(asking, first)
    assert limits.admit(asking).refusal is not None


def test_a_key_and_its_successor_have_one_count_and_with_another_rate_share_only_the_requests_under_way(limits):
    asking = caller("key:cccccccc", requests_per_second=1)
    assert limits.admit(asking).refusal is None
    assert limits.admit(replace(asking, id="bbbbbbbb")).refusal is not None
    assert limits.admit(replace(asking, owner="key:bbbbbbbb")).refusal is None
    asking = caller(requests_per_second=1, concurrent=1)
    successor = replace(asking, id="bbbbbbbb", limits=Limits(requests_per_second=3, concurrent=1))
    first = limits.admit(asking)
    assert isinstance(limits.admit(successor).refusal, ConcurrencyLimitedError)
    limits.end(asking, first)
    assert limits.admit(successor).refusal is None
    refused = limits.admit(asking)
    assert [each.limit for each in refused.standings] == ["requests_per_second"]


@pytest.mark.parametrize(
    ("given", "policies"),
    [
        ({}, []),
        ({"burst": 5, "documents": 5, "bytes": 5}, []),
        ({"requests_per_second": 10}, ['"requests";q=10;w=1']),
        ({"requests_per_second": 10, "burst": 20}, ['"requests";q=20;w=2']),
        ({"requests_per_second": 10, "burst": 15}, ['"requests";q=20;w=2']),
        ({"requests_per_second": 100, "burst": 10}, ['"requests";q=100;w=1']),
        ({"requests_per_second": 0.001}, ['"requests";q=1;w=1000']),
        (
            {"concurrent": 4, "embedded_tokens_per_day": 7, "chats_per_day": 0},
            [
                '"concurrent";q=4;qu="concurrent-requests"',
                '"embedded_tokens_per_day";q=7;w=86400;qu="tokens"',
                '"chats_per_day";q=0;w=86400;qu="chats"',
            ],
        ),
    ],
)
def test_limits_are_spelt_as_policies(given, policies):
    assert list(policies_of(Limits(**given))) == policies
