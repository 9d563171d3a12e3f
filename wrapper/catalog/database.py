"""What the catalogue asks of a database."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Connection

from schemas.errors import RagError, UnavailableError
from wrapper.catalog.transaction import Transaction

WAIT_SECONDS = 30.0
"""How long a write waits in all before it begins: behind others of its process, and for other processes."""
LOCKED = "The catalogue is being written by another for too long: nothing was stored"
TOO_SLOW = "This took too long and was given up: ask for less, or with fewer conditions"


class OutcomeUnknownError(UnavailableError):
    """The database went away during a commit: nobody knows whether it holds what was written."""

    code = "catalog_unavailable"


class LockedError(UnavailableError):
    """Somebody else writes, and did so for longer than a writer waits."""

    code = "catalog_unavailable"


class Database(Protocol):
    kind: str

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What its driver raises."""

    def translated(self, error: Exception) -> RagError:
        """One of `errors` in the service's words."""

    def read(self) -> AbstractContextManager[Transaction]:
        """One snapshot."""

    def write(self, *, durable: bool = True, wait_seconds: float = WAIT_SECONDS) -> AbstractContextManager[Transaction]:
        """The only write transaction at a time, begun within `wait_seconds`; commits at the end, rolls back on an
        exception. What is not `durable` is seen by all at once, but reaches the disk only with the next commit that
        is."""

    def migrate(self, step: Callable[[Connection], None]) -> None:
        """Run a schema change in a write transaction."""

    def change_counter(self) -> AbstractContextManager[Callable[[], int]]:
        """A function whose number changes when another connection has committed; costs microseconds.

        It belongs to the thread that made it.
        """

    def close(self) -> None:
        """Close every thread's connection; no thread may be inside a transaction."""
