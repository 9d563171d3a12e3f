"""The storage of the library `limits` that all workers of a service share."""

from __future__ import annotations

import math

from limits.limits import Granularity, RateLimitItem
from limits.storage import MovingWindowSupport, Storage

from wrapper.access.shared_counts import SharedCounts

MICROSECONDS = 1_000_000


class Bucket(RateLimitItem):
    """`amount` requests at once, and as many again spread over so many microseconds."""

    GRANULARITY = Granularity(1, "microsecond")


class SharedStorage(Storage, MovingWindowSupport):
    """Counts moving windows in a `SharedCounts`.

    The library's own storages remember the time of each request. This one remembers one number for each key, from which
    requests come back evenly: after a burst the next request may come after a fraction of the window, not at its end. A
    window that begins at any moment therefore has at most twice its amount, and the mean is never exceeded.

    Times are those of the clock of the counts, in microseconds as expiries are.
    """

    STORAGE_SCHEME = None

    def __init__(self, counts: SharedCounts) -> None:
        super().__init__()
        self._counts = counts

    @property
    def base_exceptions(self) -> type[Exception]:
        return OSError

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return self._counts.spend(key, amount, most=limit, seconds=expiry / MICROSECONDS)

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """Return (start of the window that ends when all requests have come back, requests that have not)."""
        seconds = expiry / MICROSECONDS
        to_full = self._counts.seconds_to_full(key, seconds)
        start = (self._counts.clock() + to_full - seconds) * MICROSECONDS
        return start, min(limit, math.ceil(to_full / seconds * limit - 1e-6))

    def check(self) -> bool:
        return True

    # The library asks for the rest of a storage, and calls it for other strategies than the one that is used here.

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        raise NotImplementedError("fixed windows are not counted here")

    def get(self, key: str) -> int:
        raise NotImplementedError("fixed windows are not counted here")

    def get_expiry(self, key: str) -> float:
        raise NotImplementedError("fixed windows are not counted here")

    def reset(self) -> int | None:
        raise NotImplementedError("the counts of a service are not reset")

    def clear(self, key: str) -> None:
        raise NotImplementedError("the counts of a service are not reset")
