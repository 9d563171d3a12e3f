"""Limits for work that asks other services, set by its caller and kept by every socket and queue on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from schemas.errors import ClientGoneError
from schemas.storage import read_limits

_ends_at: ContextVar[float] = ContextVar("ends_at", default=math.inf)
_is_unwanted: ContextVar[Callable[[], bool] | None] = ContextVar("is_unwanted", default=None)
_is_single: ContextVar[bool] = ContextVar("is_single", default=False)
_is_brief: ContextVar[bool] = ContextVar("is_brief", default=False)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Limit what the block asks in this thread to that many seconds, or to what is left of an earlier limit. None sets
    no limit of its own."""
    token = _ends_at.set(min(_ends_at.get(), math.inf if seconds is None else time.monotonic() + seconds))
    try:
        yield
    finally:
        _ends_at.reset(token)


@contextmanager
def while_wanted(is_unwanted: Callable[[], bool]) -> Iterator[None]:
    """Leave the block no time in this thread once it `is_unwanted`, which other threads ask too."""
    token = _is_unwanted.set(is_unwanted)
    try:
        yield
    finally:
        _is_unwanted.reset(token)


@contextmanager
def single_attempts() -> Iterator[None]:
    """Have each request that the block makes in this thread sent once, whatever the retry policy."""
    token = _is_single.set(True)
    try:
        yield
    finally:
        _is_single.reset(token)


def is_single() -> bool:
    """Return whether requests are sent once only."""
    return _is_single.get()


@contextmanager
def few_calls() -> Iterator[None]:
    """Have the block find out in few calls only, in this thread, which texts a service fails for."""
    token = _is_brief.set(True)
    try:
        yield
    finally:
        _is_brief.reset(token)


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
