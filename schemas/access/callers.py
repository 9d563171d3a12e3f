"""Who is asking, and what they may do: the value that authentication makes of a request, and where it travels.

A caller travels beside the call, not through it: in a context variable that every thread working for a request has.
Code that hands work to another thread passes it through `carried`. A thread that acts for nobody has no caller, and
finds that out by an error instead of by seeing everything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import wraps
from typing import ParamSpec, TypeVar

from schemas.access.owners import EVERYTHING_SEEN, OPEN, OWNS_NOTHING, Asker
from schemas.errors import RagError
from schemas.names import is_pattern, matches_pattern
from schemas.observing import spans
from schemas.where import EVERYTHING, Where

P = ParamSpec("P")
T = TypeVar("T")


class Scope(StrEnum):
    """What a caller may do. Some scopes include others (`INCLUDED`)."""

    READ = "read"
    WRITE = "write"
    MANAGE = "manage"
    CHAT = "chat"
    CONNECT = "connect"
    METRICS = "metrics"
    ADMIN = "admin"


INCLUDED = {
    Scope.READ: frozenset({Scope.READ}),
    Scope.WRITE: frozenset({Scope.READ, Scope.WRITE}),
    Scope.MANAGE: frozenset({Scope.READ, Scope.WRITE, Scope.MANAGE}),
    Scope.CHAT: frozenset({Scope.CHAT}),
    Scope.CONNECT: frozenset({Scope.CONNECT}),
    Scope.METRICS: frozenset({Scope.METRICS}),
    Scope.ADMIN: frozenset(Scope),
}
"""The scopes that each scope stands for."""


class Kind(StrEnum):
    """Where a caller's rights come from."""

    KEY = "key"
    USER = "user"
    BOOTSTRAP = "bootstrap"
    """The key of the settings (`RAG_API_KEY`)."""
    OPEN = "open"
    """Anybody, where no key is needed."""
    SERVICE = "service"
    """The service itself, in its background work."""


SKEW_SECONDS = 60
"""How far the clock of an identity provider, by which the tokens of users end, may be from this machine's."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one caller; None means unbounded."""

    requests_per_second: float | None = None
    burst: int | None = None
    concurrent: int | None = None
    documents: int | None = None
    bytes: int | None = None
    embedded_tokens_per_day: int | None = None
    chats_per_day: int | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Caller:
    """Someone who asks, with the rights they have now.

    `collections` are names and beginnings with `*` after them, None for all collections. A caller with `where` sees
    only documents that match it. `owner` is what their conversations, sessions, jobs and watchers belong to; it stays
    when a key is rotated.
    """

    id: str
    name: str
    kind: Kind
    scopes: frozenset[Scope]
    owner: str = OPEN
    collections: tuple[str, ...] | None = None
    where: Where = EVERYTHING
    limits: Limits = NO_LIMITS
    expires_at: datetime | None = None
    payer: str = ""
    """For whom their limits are counted, when that is not the owner."""
    granted: frozenset[Scope] = field(init=False, repr=False, compare=False)
    """The scopes with all that they include."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "granted", frozenset().union(*(INCLUDED[each] for each in self.scopes)))

    def may(self, scope: Scope) -> bool:
        return scope in self.granted

    @property
    def account(self) -> str:
        """Under which name what they use is counted."""
        return self.payer or self.owner

    @property
    def owns_nothing(self) -> bool:
        """Whether they ask through another service: what is kept for such callers would be that of all of them."""
        return self.owner == OWNS_NOTHING

    @property
    def is_admin(self) -> bool:
        return Scope.ADMIN in self.granted

    @property
    def is_filtered(self) -> bool:
        return self.where != EVERYTHING

    def knows(self, collection: str) -> bool:
        """Return whether a collection of that name is one of this caller's, whether it exists or not."""
        return self.collections is None or any(matches_pattern(collection, each) for each in self.collections)

    def knows_some(self, beginning: str) -> bool:
        """Return whether a collection whose name begins so may be one of this caller's."""
        return self.collections is None or any(
            each.startswith(beginning) or (is_pattern(each) and beginning.startswith(each[:-1]))
            for each in self.collections
        )

    @property
    def view(self) -> str:
        """What the caller sees, as a text that is equal for callers who see the same: part of the key of every cache
        of answers."""
        if self.is_admin:
            return ""
        return repr((self.owner, self.collections, self.where))

    @property
    def reach(self) -> str:
        """What the caller sees of the documents, whoever they are: what they share is shared with callers whose reach
        is equal, and with those who see everything. With those who ask through another service nothing is shared."""
        if self.owns_nothing:
            return OWNS_NOTHING
        if self.collections is None and not self.is_filtered:
            return EVERYTHING_SEEN
        collections = None if self.collections is None else sorted(set(self.collections))
        return _hashed(repr((collections, self.where)))

    @property
    def asker(self) -> Asker:
        """The caller, as stores of things with owners know them."""
        return Asker(self.owner, self.is_admin, self.reach)

    @property
    def chat_asker(self) -> Asker:
        """The caller, as the history of conversations knows them: what is said there may repeat documents, so one who
        may not read any has another reach there than one who may."""
        if not self.may(Scope.READ):
            return Asker(self.owner, self.is_admin, _hashed(f"reads nothing of {self.reach}"), ())
        if self.is_filtered:
            return self.asker
        return replace(self.asker, collections=("*",) if self.collections is None else self.collections)


def _hashed(told: str) -> str:
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()


ANYBODY = Caller("open", "open", Kind.OPEN, frozenset({Scope.ADMIN}))
SERVICE = Caller("service", "service", Kind.SERVICE, frozenset({Scope.ADMIN}))

Still = Callable[[], Caller]
"""Returns a caller with the rights and limits of now. Raises AccessError when they may not go on."""

_current: ContextVar[tuple[Caller, Still | None]] = ContextVar("caller")


def current() -> Caller:
    """Return the caller for whom this thread works. Raises RagError when it works for nobody, which is a defect."""
    try:
        return _current.get()[0]
    except LookupError:
        raise RagError("This work has no caller") from None


def current_or_none() -> Caller | None:
    """Return the caller for whom this thread works, None where it works for nobody."""
    acting = _current.get(None)
    return None if acting is None else acting[0]


def current_view() -> str:
    """Return what the caller sees for whom this thread works (`Caller.view`), the empty text where it works for
    nobody."""
    caller = current_or_none()
    return "" if caller is None else caller.view


@contextmanager
def acting_as(caller: Caller, still: Still | None = None) -> Iterator[None]:
    """Work for this caller in the block, in this thread. `acting_still` asks `still`; without it, their rights stay."""
    token = _current.set((caller, still))
    try:
        yield
    finally:
        _current.reset(token)


def check_acting() -> None:
    """Raise AccessError when the caller for whom this thread works may not go on: after a wait that may have taken
    long."""
    acting = _current.get(None)
    if acting is not None and acting[1] is not None:
        acting[1]()


@contextmanager
def acting_still() -> Iterator[None]:
    """Work in the block, one of many steps of something that may take long, for the caller of now.

    Whoever embeds, waits or reads before they write, writes in such a block. Raises AccessError when the caller may not
    go on.
    """
    acting = _current.get(None)
    if acting is None or acting[1] is None:
        yield
        return
    still = acting[1]
    with acting_as(still(), still):
        yield


def as_service(work: Callable[P, T]) -> Callable[P, T]:
    """Return `work` as a function that works for the service itself, whoever calls it."""

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with acting_as(SERVICE):
            return work(*args, **kwargs)

    return run


def carried(work: Callable[P, T]) -> Callable[P, T]:
    """Return `work` as a function that another thread may call: it works for the caller of now, in the span of now."""
    work = spans.carried(work)
    acting = _current.get(None)
    if acting is None:
        return work

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with acting_as(*acting):
            return work(*args, **kwargs)

    return run
