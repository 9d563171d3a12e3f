"""Holds callers to the limits of their keys: requests per second, and requests at the same time.

What is counted for a second, or for as long as a request lasts, is counted in a file that the workers of this service
share (`wrapper/access/shared_counts.py`), what is counted for a day in the catalogue's database
(`wrapper/access/daily_use.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from limits.strategies import MovingWindowRateLimiter

from schemas.access.callers import Caller, Limits
from schemas.errors import ConcurrencyLimitedError, TooManyRequestsError
from wrapper.access.shared_counts import SharedCounts
from wrapper.access.shared_storage import MICROSECONDS, Bucket, SharedStorage

FILE_NAME = "limits.counts"
BUSY_RETRY_SECONDS = 1
"""When a caller may ask again who has too many requests under way: nobody knows when one of them will end."""
REQUESTS, CONCURRENT = "requests_per_second", "concurrent"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a caller stands with one limit: how many more it allows now, and in how many seconds it will allow all, or
    any when it allows none now. None where nobody knows."""

    limit: str
    left: int
    seconds: int | None = None


@dataclass(slots=True)
class Admission:
    """The answer to a request that asked to be let in. It is not let in when there is a `refusal`."""

    limits: Limits
    standings: list[Standing] = field(default_factory=list)
    refusal: TooManyRequestsError | None = None
    is_counted: bool = False
    """Whether the request is one of those under way, which it has to end."""


class RequestLimits:
    """The limits of requests. Safe for several threads; each process opens its own after it was forked.

    Keys that came from one another by rotation have one count: of requests at the same time always, and of requests per
    second while their rate and burst are equal. What came back at one rate says nothing at another.
    """

    def __init__(self, counts: SharedCounts) -> None:
        self._counts = counts
        self._rates = MovingWindowRateLimiter(SharedStorage(counts))

    def admit(self, caller: Caller, *, is_under_way: bool = False) -> Admission:
        """Count a request, unless the caller's limits do not allow it now. One that `is_under_way` is a part of another
        one, which is counted among those under way."""
        admission = Admission(caller.limits)
        if caller.limits.requests_per_second is not None:
            self._spend_request(caller, caller.limits.requests_per_second, admission)
        if caller.limits.concurrent is not None and admission.refusal is None and not is_under_way:
            self._begin_request(caller, caller.limits.concurrent, admission)
        return admission

    def end(self, caller: Caller, admission: Admission) -> None:
        """Count a request less that is under way; a second call does nothing."""
        if admission.is_counted:
            admission.is_counted = False
            self._counts.end(caller.account)

    def close(self) -> None:
        self._counts.close()

    def _spend_request(self, caller: Caller, rate: float, admission: Admission) -> None:
        bucket = bucket_of(caller.limits)
        is_allowed = self._rates.hit(bucket, caller.account)
        stats = self._rates.get_window_stats(bucket, caller.account)
        left = max(0, stats.remaining) if is_allowed else 0
        seconds = max(0.0, stats.reset_time / MICROSECONDS - self._counts.clock())
        if left == 0:
            seconds = max(1.0, seconds - (bucket.amount - 1) / rate)  # until one has come back
        if not is_allowed:
            admission.refusal = TooManyRequestsError(
                f"The key's limit is {rate:g} requests per second, and {bucket.amount} at once",
                retry_after_seconds=math.ceil(seconds),
                limit=REQUESTS,
            )
        admission.standings.append(Standing(REQUESTS, left, math.ceil(seconds)))

    def _begin_request(self, caller: Caller, most: int, admission: Admission) -> None:
        before = self._counts.begin(caller.account, most)
        if before is None:
            admission.refusal = ConcurrencyLimitedError(
                f"The key's limit is {most} requests at the same time, and as many are under way",
                retry_after_seconds=BUSY_RETRY_SECONDS,
                limit=CONCURRENT,
            )
            admission.standings.append(Standing(CONCURRENT, 0, BUSY_RETRY_SECONDS))
        else:
            admission.is_counted = True
            admission.standings.append(Standing(CONCURRENT, most - before - 1))


class CountedTogether:
    """The requests that are made, one after the other and with one key, to answer a single one from outside, such as a
    page. They count as one: all that only read, and the first that does more. Each further one that does more counts
    against the rate by itself."""

    def __init__(self) -> None:
        self._first: Admission | None = None
        self._has_done_more = False
        self._end: Callable[[], None] = _nothing

    def admit(self, limits: RequestLimits, caller: Caller, *, does_more: bool) -> Admission:
        """Count a request, unless the caller's limits do not allow it now."""
        if self._first is None or (does_more and self._has_done_more):
            admission = limits.admit(caller, is_under_way=self._first is not None)
            if admission.refusal is not None:
                return admission
            if self._first is None:
                self._first, self._end = admission, partial(limits.end, caller, admission)
        else:
            admission = self._first
        self._has_done_more = self._has_done_more or does_more
        return admission

    def end(self) -> None:
        """Count a request less that is under way, because the one from outside is answered."""
        self._end()


def _nothing() -> None:
    pass


def bucket_of(limits: Limits) -> Bucket:
    """Return the bucket of a limit of requests per second: it holds the burst, or what a second allows, but at least
    one request."""
    rate = limits.requests_per_second
    assert rate is not None
    burst = max(1, math.ceil(rate)) if limits.burst is None else limits.burst
    return Bucket(burst, max(1, round(burst / rate * MICROSECONDS)), namespace="key")
