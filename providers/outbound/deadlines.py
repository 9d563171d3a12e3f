"""Deadlines for work that asks other services, set by its caller and kept by every socket and queue on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ends_at: ContextVar[float] = ContextVar("ends_at", default=math.inf)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Limit what the block asks in this thread to that many seconds, or to what is left of an earlier limit. None sets
    no limit of its own."""
    token = _ends_at.set(min(_ends_at.get(), math.inf if seconds is None else time.monotonic() + seconds))
    try:
        yield
    finally:
        _ends_at.reset(token)


def seconds_left() -> float:
    """Return the seconds until the deadline: infinite when there is none, never negative."""
    return max(0.0, _ends_at.get() - time.monotonic())
