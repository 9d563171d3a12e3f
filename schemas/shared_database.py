"""The catalogue's database as the registry uses it, shared by all workers: SQL text in transactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Transaction(Protocol):
    """A transaction whose statements have a question mark for each parameter."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None: ...

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None: ...


class Database(Protocol):
    """A database whose owner may refuse writes that add to it, as long as the disk has too little room."""

    @property
    def freely(self) -> Database:
        """The same database, for writes that are never refused so: those that delete, take rights away, or keep account
        of what is bounded."""

    def open_part(self, part: str, steps: Sequence[Sequence[str]]) -> None:
        """Bring the tables of a part up to date: statements in numbered steps, each run once."""

    def read(self) -> AbstractContextManager[Transaction]: ...

    def commit(self, operation: Callable[[Any], T]) -> T:
        """Run a write and return its result once it is on disk. Raises DiskFloorError."""

    def commit_quickly(self, operation: Callable[[Any], T]) -> T:
        """Run a write and return its result without waiting for the disk. Raises DiskFloorError."""
