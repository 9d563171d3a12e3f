"""What a request is doing, and for how long, for traces.

Work is put into a span where it is done, and nothing is made of that while no request is traced. A span says what kind
of work it was: never whose, and no text, name or id of what it was about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Attribute = str | int | float | bool


class Span(Protocol):
    """A piece of work that is under way."""

    @property
    def traceparent(self) -> str:
        """What tells another service which span its work belongs to, as W3C's Trace Context spells it."""

    def child(self, name: str, attributes: Mapping[str, Attribute]) -> AbstractContextManager[Span]:
        """Return a span within this one that ends with the block, as failed when the block raises."""

    def note(self, attributes: Mapping[str, Attribute]) -> None:
        """Add what has turned out meanwhile."""


class RequestSpan(Span, Protocol):
    """A request that is under way."""

    def end(self, status: int, attributes: Mapping[str, Attribute]) -> None:
        """End the span with the status of the answer, when all of it is sent."""


class Tracer(Protocol):
    def begin(self, method: str, route: str, traceparent: str) -> RequestSpan:
        """Return the span of a request, a part of the trace that its caller names."""


NOTHING = nullcontext()
_current: ContextVar[Span | None] = ContextVar("span", default=None)


def current() -> Span | None:
    """Return the span of what this thread does, None while nothing is traced."""
    return _current.get()


@contextmanager
def within(span: Span | None) -> Iterator[None]:
    """Do the block's work as a part of a span, which goes on afterwards."""
    token = _current.set(span)
    try:
        yield
    finally:
        _current.reset(token)


def span(name: str, **attributes: Attribute) -> AbstractContextManager[None]:
    """Return what does the block's work in a span of its own."""
    parent = _current.get()
    return NOTHING if parent is None else _begun(parent, name, attributes)


@contextmanager
def _begun(parent: Span, name: str, attributes: Mapping[str, Attribute]) -> Iterator[None]:
    with parent.child(name, attributes) as mine, within(mine):
        yield


def note(**attributes: Attribute) -> None:
    """Add to the span of what this thread does."""
    if (mine := _current.get()) is not None:
        mine.note(attributes)


def spanned(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return what makes a function do its work in a span of its own."""

    def decorated(work: Callable[P, T]) -> Callable[P, T]:
        @wraps(work)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            with span(name):
                return work(*args, **kwargs)

        return run

    return decorated


def carried(work: Callable[P, T]) -> Callable[P, T]:
    """Return `work` as a function that another thread may call: it is a part of the span of now."""
    mine = _current.get()
    if mine is None:
        return work

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with within(mine):
            return work(*args, **kwargs)

    return run
