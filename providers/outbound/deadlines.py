"""Limits for work that asks other services, set by its caller and kept by every socket and queue on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from schemas.errors import ClientGoneError
from schemas.storage import read_limits

T = TypeVar("T")

_ends_at: ContextVar[float] = ContextVar("ends_at", default=math.inf)
_is_unwanted: ContextVar[Callable[[], bool] | None] = ContextVar("is_unwanted", default=None)
_is_single: ContextVar[bool] = ContextVar("is_single", default=False)
_is_brief: ContextVar[bool] = ContextVar("is_brief", default=False)


@contextmanager
def _with(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def within(seconds: float | None) -> AbstractContextManager[None]:
    """Limit what the block asks in this thread to that many seconds, or to what is left of an earlier limit. None sets
    no limit of its own."""
    return _with(_ends_at, min(_ends_at.get(), math.inf if seconds is None else time.monotonic() + seconds))


def while_wanted(is_unwanted: Callable[[], bool]) -> AbstractContextManager[None]:
    """Leave the block no time in this thread once it `is_unwanted`, which other threads ask too."""
    return _with(_is_unwanted, is_unwanted)


def single_attempts() -> AbstractContextManager[None]:
    """Have each request that the block makes in this thread sent once, whatever the retry policy."""
    return _with(_is_single, True)


def is_single() -> bool:
    """Return whether requests are sent once only."""
    return _is_single.get()


def few_calls() -> AbstractContextManager[None]:
    """Have the block find out in few calls only, in this thread, which texts a service fails for."""
    return _with(_is_brief, True)


def is_brief() -> bool:
    """Return whether few calls are to be made."""
    return _is_brief.get()


def unwanted() -> Callable[[], bool] | None:
    """Return what says that nobody wants the work of this thread any more, None where nothing does."""
    return _is_unwanted.get()


def seconds_left() -> float:
    """Return the seconds until the deadline: infinite when there is none, never negative."""
    asks = _is_unwanted.get()
    return 0.0 if asks is not None and asks() else max(0.0, _ends_at.get() - time.monotonic())


def finished(answer: Future[Any]) -> bool:
    """Wait for a future until the deadline, and return whether it has finished. Raises ClientGoneError when the client
    leaves meanwhile for whom this thread reads."""
    reads = read_limits.current()
    while not wait([answer], min(read_limits.LOOK_SECONDS, seconds_left())).done:
        if not seconds_left():
            return False
        if reads is not None and reads.client_has_left():
            raise ClientGoneError
    return True
