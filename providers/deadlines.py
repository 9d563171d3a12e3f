"""Until when an answer is of use: said by whoever waits for it, kept by every socket and every queue on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ends_at: ContextVar[float] = ContextVar("ends_at", default=math.inf)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """What the block asks, in this thread, has so many seconds, or what is left of an earlier limit. None is no limit
    of its own."""
    token = _ends_at.set(min(_ends_at.get(), math.inf if seconds is None else time.monotonic() + seconds))
    try:
        yield
    finally:
        _ends_at.reset(token)


def seconds_left() -> float:
    """Infinite where nobody said a limit; never negative."""
    return max(0.0, _ends_at.get() - time.monotonic())
