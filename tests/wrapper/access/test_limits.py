"""The limits of requests of one caller, by a clock of the test's own, and over HTTP; and what a key may use in a day."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.access.callers import Caller, Kind, Limits, Scope
from schemas.access.narrowing import HEADER
from schemas.errors import ConcurrencyLimitedError, TooManyRequestsError
from tests.support.catalogues import one_database
from tests.wrapper.access.conftest import BOOTSTRAP, at, on_both
from tests.wrapper.clock import Clock
from wrapper.access.daily_use import DailyUse
from wrapper.access.limits import RequestLimits, Standing
from wrapper.access.shared_counts import SharedCounts
from wrapper.catalog.catalog import Catalog
from wrapper.observing import metrics
from wrapper.web.limit_headers import policies_of


@pytest.fixture(params=["sqlite"])
def open_catalog(request):
    with one_database(request) as open_one:

        def open_catalog():
            catalog = Catalog(open_one())
            catalog.open()
            return catalog

        yield open_catalog


@pytest.fixture
def day():
    return Clock(at(2026, 11, 23, 18))


@pytest.fixture
def daily_use(open_catalog, day):
    return DailyUse(open_catalog(), day)


def refusal(work, *arguments):
    with pytest.raises(TooManyRequestsError) as refused:
        work(*arguments)
    return refused.value


@on_both("open_catalog")
def test_chats_are_counted_until_midnight_utc(daily_use, day):
    asking = caller(chats_per_day=2)
    six_hours = 6 * 3_600
    assert daily_use.begin_chat(asking) == Standing("chats_per_day", 1, six_hours)
    assert daily_use.begin_chat(asking) == Standing("chats_per_day", 0, six_hours)
    error = refusal(daily_use.begin_chat, asking)
    assert (error.code, error.retry_after_seconds) == ("rate_limited", six_hours)
    assert error.details == {"limit": "chats_per_day"}
    assert error.message == "The key's limit of chat calls a day, 2, is used up until midnight UTC"
    day.now += timedelta(hours=6, seconds=-1)
    assert refusal(daily_use.begin_chat, asking).retry_after_seconds == 1
    day.now += timedelta(seconds=1)
    assert daily_use.begin_chat(asking) == Standing("chats_per_day", 1, 86_400)
    assert daily_use.used(asking.owner) == (0, 1)


def test_tokens_are_checked_before_and_counted_after(daily_use, day):
    asking = caller(embedded_tokens_per_day=100)
    daily_use.check_tokens(asking)
    daily_use.count_tokens(asking, 99)
    daily_use.check_tokens(asking)
    daily_use.count_tokens(asking, 50)
    assert refusal(daily_use.check_tokens, asking).details == {"limit": "embedded_tokens_per_day"}
    assert daily_use.used(asking.owner) == (149, 0)
    day.now += timedelta(days=1)
    daily_use.check_tokens(asking)


def test_callers_are_counted_apart_rotated_keys_together_and_those_without_these_limits_not_at_all(daily_use):
    assert daily_use.begin_chat(caller(chats_per_day=1)) is not None
    assert daily_use.begin_chat(caller("key:bbbbbbbb", chats_per_day=1)) is not None
    assert refusal(daily_use.begin_chat, caller(chats_per_day=1))
    asking = caller("key:cccccccc", documents=5)
    assert daily_use.begin_chat(asking) is None
    daily_use.check_tokens(asking)
    assert daily_use.used(asking.owner) == (0, 0)


@on_both("open_catalog")
def test_calls_at_the_same_time_by_two_services_never_exceed_the_chats(open_catalog, day):
    services, asking = [DailyUse(open_catalog(), day) for _ in range(2)], caller(chats_per_day=5)

    def begin(number):
        try:
            return services[number % 2].begin_chat(asking).left
        except TooManyRequestsError:
            return None

    with ThreadPoolExecutor(8) as pool:
        begun = list(pool.map(begin, range(20)))
    assert sorted(left for left in begun if left is not None) == [0, 1, 2, 3, 4]


def test_a_caller_takes_one_row_however_many_days_they_come(open_catalog, day):
    catalog = open_catalog()
    daily_use = DailyUse(catalog, day)
    for _ in range(3):
        daily_use.begin_chat(caller(chats_per_day=1))
        day.now += timedelta(days=1)
    with catalog.read() as transaction:
        assert transaction.value("SELECT count(*) FROM daily_use") == 1


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
        ({"requests_per_second": 10, "burst": 15}, ['"requests";q=20;w=2']),
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


SLOW = 0.001
"""Requests per second that no test waits for."""
ADMIN = {"X-API-Key": BOOTSTRAP}


@pytest.fixture
def ask(service):
    """`ask(key, path, …)`: the answer to a request with the headers of a key."""

    def ask(key, path="/collections", method="GET", **how):
        return service.client().open(path, method=method, headers=key, **how)

    return ask


@pytest.fixture
def rubbish(service):
    """The header of a view of this service that cannot be read."""
    return {HEADER: f"{service.app.extensions['rag.service'].id} !"}


def refusals(code):
    return metrics.REFUSED_REQUESTS.labels(code)._value.get()


def test_a_key_is_refused_beyond_its_burst_and_told_when_the_next_request_comes(service, ask):
    key, before = service.key("read", requests_per_second=SLOW, burst=2), refusals("rate_limited")
    first, last, refused = (ask(key) for _ in range(3))
    assert [answer.status_code for answer in (first, last, refused)] == [200, 200, 429]
    assert first.headers["RateLimit-Policy"] == '"requests";q=2;w=2000'
    assert first.headers["RateLimit"].startswith('"requests";r=1;t=')
    assert last.headers["RateLimit"].startswith('"requests";r=0;t=')
    assert 900 < int(last.headers["RateLimit"].rpartition("=")[2]) <= 1_000
    assert refused.json["code"] == "rate_limited"
    assert refused.json["details"] == {"limit": "requests_per_second"}
    seconds = int(refused.headers["Retry-After"])
    assert 900 < seconds <= 1_000
    assert refused.headers["RateLimit"] == f'"requests";r=0;t={seconds}'
    assert refusals("rate_limited") == before + 1
    assert ask(service.key("read", requests_per_second=SLOW)).status_code == 200, "another key goes on"
    for without_limits in (service.key("read"), ADMIN):
        answer = ask(without_limits)
        assert answer.status_code == 200
        assert not {"RateLimit", "RateLimit-Policy"} & set(answer.headers.keys())


@pytest.mark.slow
def test_how_the_service_is_may_always_be_asked(service, ask):
    key = service.key("read", requests_per_second=SLOW)
    paths = ("/live", "/openapi.json", "/live", "/collections")
    assert [ask(key, path).status_code for path in paths] == [200] * 4


def test_repeats_and_requests_without_the_scope_or_a_readable_view_count_too(service, ask, rubbish):
    key = service.key("manage", requests_per_second=SLOW, burst=2) | {"Idempotency-Key": "once"}
    made = [ask(key, method="POST", json={"name": "made-once"}).status_code for _ in range(3)]
    assert made == [201, 201, 429]
    key = service.key("read", requests_per_second=SLOW)
    assert service.plain_client().post("/collections", headers=key, json={"name": "first"}).status_code == 403
    assert ask(key).status_code == 429
    key = service.key("read", requests_per_second=SLOW, burst=2) | rubbish
    assert [ask(key).status_code for _ in range(3)] == [400, 400, 429]
    busy = service.key("read", concurrent=1) | rubbish
    assert [ask(busy).status_code for _ in range(2)] == [400, 400]


def test_a_write_with_an_unreadable_view_is_that_of_its_key(service, ask, rubbish, new_lines):
    key = service.key("manage")
    refused = ask(key | rubbish, method="POST", json={"name": "unread"})
    assert (refused.status_code, refused.json["details"]) == (400, {"field": HEADER})
    (line,) = new_lines()
    assert line["key_id"] == ask(key, "/api/me").json["id"]


def test_anybody_with_an_unreadable_view_is_told_how_the_service_is(ask, rubbish):
    whole, short = ask(ADMIN, "/health").json, ask({}, "/health").json
    assert ask(ADMIN | rubbish, "/health").json.keys() == short.keys()
    assert short.keys() != whole.keys()


def test_a_stream_is_under_way_until_its_end(service, ask):
    key = service.key("manage", concurrent=1)
    ask(key, method="POST", json={"name": "streamed"})
    lines = [{"id": str(number), "text": "word " * 10_000, "metadata": {}, "embedding": [1.0]} for number in range(50)]
    added = ask(key, "/collections/streamed/documents", "POST", json={"documents": lines})
    assert added.status_code in (201, 202)
    stream = service.plain_client().get("/collections/streamed/export", headers=key, buffered=False)
    next(stream.iter_encoded())
    refused = ask(key)
    assert (refused.status_code, refused.json["code"]) == (429, "concurrency_limited")
    assert refused.headers["Retry-After"] == "1"
    stream.close()
    for path, status in (("/collections", 200), ("/collections/missing", 404), ("/collections", 200)):
        answer = ask(key, path)
        assert (answer.status_code, answer.headers["RateLimit"]) == (status, '"concurrent";r=0')
