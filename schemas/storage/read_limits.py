"""How long the reads of a request may go on: set where the request takes its place, looked at wherever the catalogue is
read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

from schemas.access.callers import carried
from schemas.errors import ClientGoneError, ReadTimeoutError

P = ParamSpec("P")
T = TypeVar("T")

LOOK_SECONDS = 0.5
"""The interval of the looks whether the client is still there. The first one comes after it, since a client that sends
nothing more may still read what comes at once."""


class ReadLimit:
    """A time that begins with the first read, and a client who may leave before it is over."""

    def __init__(
        self, seconds: float, is_gone: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._is_gone = is_gone
        self._clock = clock
        self._ends_at: float | None = None
        self._looks_at = float("inf")
        self.has_left = False
        """Whether the reads were given up because the client has left."""

    def check(self) -> None:
        """Raise ReadTimeoutError when the time is over, ClientGoneError when the client has left."""
        if self.is_over():
            if self.has_left:
                raise ClientGoneError
            sentence = f"The read was given up, because it took longer than {self._seconds:g} seconds"
            raise ReadTimeoutError(f"{sentence}: ask for less at a time")

    def is_over(self) -> bool:
        is_late = self.seconds_left() <= 0
        if (now := self._clock()) >= self._looks_at:
            self._looks_at = now + LOOK_SECONDS
            self.client_has_left()
        return self.has_left or is_late

    def client_has_left(self) -> bool:
        """Look, from any thread, whether the client is still there."""
        self.has_left = self.has_left or self._is_gone()
        return self.has_left

    def extend(self, seconds: float) -> None:
        """End in so many seconds, and not when the client leaves: sending the answer will tell."""
        self._ends_at, self._is_gone = self._clock() + seconds, lambda: False

    def seconds_left(self) -> float:
        now = self._clock()
        if self._ends_at is None:
            self._ends_at, self._looks_at = now + self._seconds, now + LOOK_SECONDS
        return self._ends_at - now


_current: ContextVar[ReadLimit | None] = ContextVar("read_limit", default=None)


def current() -> ReadLimit | None:
    """Return the limit of the reads of this thread, None when they have none."""
    return _current.get()


@contextmanager
def limited(limit: ReadLimit | None) -> Iterator[None]:
    """Bound the reads that the block begins in this thread; None takes an earlier limit away."""
    token = _current.set(limit)
    try:
        yield
    finally:
        _current.reset(token)


def within(seconds: float) -> AbstractContextManager[None]:
    """Bound the reads that the block begins in this thread by a time, and by the client of an earlier limit."""
    earlier = current()
    return limited(ReadLimit(seconds, earlier.client_has_left if earlier else lambda: False))


def awaited(work: Callable[P, T]) -> Callable[P, T]:
    """Return `work` as `carried` does, for a thread that this one waits for: what it reads and asks ends, too, when the
    client leaves."""
    work, limit = carried(work), current()

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with limited(limit):
            return work(*args, **kwargs)

    return run
