"""What a key may use in a day, by a clock of the test's own."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from schemas.access.callers import Caller, Kind, Limits, Scope
from schemas.errors import TooManyRequestsError
from tests.support.catalogues import one_database
from tests.wrapper.access.conftest import at, on_both
from tests.wrapper.clock import Clock
from wrapper.access.daily_use import DailyUse
from wrapper.access.limits import Standing
from wrapper.catalog.catalog import Catalog


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


def caller(owner="key:aaaaaaaa", **limits):
    return Caller("aaaaaaaa", "a", Kind.KEY, frozenset({Scope.CHAT}), owner, limits=Limits(**limits))


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
