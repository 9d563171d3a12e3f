"""Turns with other services: a request says which of them it is about to wait for, in whatever layer that is known, so
that those who wait for one of them leave room for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Take = Callable[[frozenset[str]], Callable[[], None]]
"""Waits for a turn with these connections, and returns the function that ends it. Raises BusyError when there is none
in time."""

_take: ContextVar[Take | None] = ContextVar("take", default=None)


@contextmanager
def turns_by(take: Take) -> Iterator[None]:
    """Have turns taken so in the block, in this thread."""
    token = _take.set(take)
    try:
        yield
    finally:
        _take.reset(token)


@contextmanager
def waiting_for(connections: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Take a turn with these connections for the block, where this thread works for a request that has a place for
    them; elsewhere they are not even looked up. Raises BusyError when there is no turn in time."""
    take = _take.get()
    asked = frozenset() if take is None else frozenset(connections())
    if take is None or not asked:
        yield
        return
    end = take(asked)
    try:
        yield
    finally:
        end()
