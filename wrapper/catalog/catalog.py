"""The catalogue: transactions, and the one thing they share, the commit.

Writers that come while a commit is on its way to the disk wait for each other and go in one transaction, each in a
savepoint of its own, so that one writer's error is nobody else's and a commit is paid once.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar, cast

import structlog
from sqlalchemy.exc import SQLAlchemyError

from schemas.errors import DiskFloorError, RagError, UnavailableError
from wrapper.catalog.migrations import migrate
from wrapper.catalog.sqlite import SQLiteDatabase
from wrapper.catalog.transaction import Transaction

log = structlog.get_logger(__name__)

T = TypeVar("T")
MAX_SHARED = 64


class Catalog:
    """Open with `open()`; safe for any number of threads and, through the database, of processes."""

    def __init__(self, database: SQLiteDatabase) -> None:
        self._database = database
        self._waiting: deque[_Job] = deque()
        self._committing = threading.Lock()

    def open(self) -> None:
        """Bring the schema up to date. Raises ConfigurationError when a newer release wrote it."""
        with _translated():
            self._database.migrate(migrate)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """One snapshot. Raises UnavailableError when the database cannot be read."""
        with _translated(), self._database.read() as transaction:
            yield transaction

    def commit(self, operation: Callable[[Transaction], T]) -> T:
        """Run a write and return its result once it is on disk; whatever it raises leaves nothing behind."""
        job = _Job(operation)
        self._waiting.append(job)
        with self._committing:
            while not job.done:
                self._commit_waiting(job)
        if job.error is not None:
            raise job.error
        return cast(T, job.result)

    def commit_quickly(self, operation: Callable[[Transaction], T]) -> T:
        """Run a write without waiting for the disk: one whose loss in a crash only means doing some work again."""
        with self._committing, _translated(), self._database.write(durable=False) as transaction:
            return operation(transaction)

    def change_counter(self) -> AbstractContextManager[Callable[[], int]]:
        """A cheap number that changes when any other process or connection has committed."""
        return self._database.change_counter()

    def close(self) -> None:
        self._database.close()

    def _commit_waiting(self, own: _Job) -> None:
        jobs = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_SHARED))]
        try:
            self._commit_together(jobs)
        finally:
            # A thread that is being ended takes nobody with it: the writes of the others wait again.
            self._waiting.extendleft(job for job in reversed(jobs) if not job.done and job is not own)

    def _commit_together(self, jobs: list[_Job]) -> None:
        if len(jobs) == 1:
            self._commit_alone(jobs[0])
            return
        try:
            with _translated(), self._database.write() as transaction:
                for job in jobs:
                    job.run(transaction)
        except Exception:
            # Whose fault it was is not known: each has a transaction of its own.
            for job in jobs:
                self._commit_alone(job)
        for job in jobs:
            job.done = True

    def _commit_alone(self, job: _Job) -> None:
        job.error = None
        try:
            with _translated(), self._database.write() as transaction:
                job.result = job.operation(transaction)
        except Exception as error:
            job.error = error
        job.done = True


class _Job:
    def __init__(self, operation: Callable[[Transaction], Any]) -> None:
        self.operation = operation
        self.result: Any = None
        self.error: Exception | None = None
        self.done = False

    def run(self, transaction: Transaction) -> None:
        """In a savepoint, so that its error is nobody else's."""
        transaction.run("SAVEPOINT one_write")
        try:
            self.result = self.operation(transaction)
        except RagError as error:
            transaction.run("ROLLBACK TO one_write")
            self.error = error
        transaction.run("RELEASE one_write")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        reason = str(getattr(error, "orig", error))
        log.error("catalogue failed", error=reason)
        if "disk is full" in reason:
            raise DiskFloorError("The disk is full: nothing was stored") from error
        raise UnavailableError("The catalogue is unavailable", code="catalog_unavailable") from error
