"""The catalogue's database as the registry uses it, shared by all workers: SQL text in transactions, and records stored
by the names of their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Transaction(Protocol):
    """A transaction whose statements have a question mark for each parameter."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None: ...

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None: ...


@dataclass(frozen=True, slots=True)
class Place:
    """A place above the storage that an erasure has to clean. `erase` removes what is there of a
    `schemas.storage.erasure.Target`, and returns how many things it removed; `done` says so in a receipt.

    With `adds_documents` what is there of a user makes documents of theirs, so it goes before these are looked for.
    With `fills_late` something may come there, after it was removed, of what was asked before: so it is removed once
    more at the end. Elsewhere that would take what clients have sent since. `holders` returns those files that are of
    something else than a target here, each with the name of that.
    """

    name: str
    done: str
    erase: Callable[[Any], int]
    adds_documents: bool = False
    fills_late: bool = False
    holders: Callable[[Any, Set[Path]], Mapping[Path, str]] = lambda target, files: {}


class Database(Protocol):
    """A database whose owner may refuse writes that add to it, as long as the disk has too little room."""

    @property
    def freely(self) -> Database:
        """The same database, for writes that are never refused so: those that delete, take rights away, or keep account
        of what is bounded."""

    @property
    def places(self) -> Sequence[Place]:
        """The places of all parts that were opened."""

    def open_part(self, part: str, steps: Sequence[Sequence[str]], place: Place | None = None) -> None:
        """Bring the tables of a part up to date: statements in numbered steps, each run once. An erasure cleans its
        `place`."""

    def read(self) -> AbstractContextManager[Transaction]: ...

    def commit(self, operation: Callable[[Any], T]) -> T:
        """Run a write and return its result once it is on disk. Raises DiskFloorError."""

    def commit_quickly(self, operation: Callable[[Any], T], *, wait_seconds: float | None = None) -> T:
        """Run a write and return its result without waiting for the disk. Raises DiskFloorError, and UnavailableError
        when others write for longer than `wait_seconds`."""


def of_fields(kind: Callable[..., T], stored: Mapping[str, Any]) -> T:
    """Return what `kind` makes of the stored fields that it takes; others, which another release stored, are passed
    over. Raises TypeError when one is missing that it needs."""
    names = _names(kind)
    return kind(**stored) if names is None else kind(**{name: stored[name] for name in names & stored.keys()})


@cache
def _names(kind: Callable[..., Any]) -> frozenset[str] | None:
    """Return the names of the fields that `kind` takes, None when it takes any."""
    try:
        parameters = signature(kind).parameters.values()
    except ValueError:  # a type of Python's own
        return None
    is_open = any(each.kind is Parameter.VAR_KEYWORD for each in parameters)
    return None if is_open else frozenset(each.name for each in parameters)
