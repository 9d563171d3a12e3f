"""The catalogue: transactions, and the one thing they share, the commit.

Writers that come while a commit is on its way to the disk wait for each other and go in one transaction, each in a
savepoint of its own, so that one writer's error is nobody else's and a commit is paid once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from schemas.errors import RagError
from wrapper.catalog import word_indexing
from wrapper.catalog.database import LOCKED, Database, LockedError, OutcomeUnknownError
from wrapper.catalog.migrations import migrate, migrate_part
from wrapper.catalog.transaction import Transaction
from wrapper.combining import Combiner, Ticket

T = TypeVar("T")
Operation = Callable[[Transaction], Any]
MAX_SHARED = 64
TURN_SECONDS = 30.0
"""How long a write waits for its turn behind others of its process; as long as it then waits for other processes."""


class Write(NamedTuple):
    """A write on its way, and when it came."""

    operation: Operation
    came_at: float


_Job = Ticket[Write, Any]


class Catalog:
    """Open with `open()`; safe for any number of threads and, through the database, of processes."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._snapshots: dict[object, float] = {}
        self._commits: Combiner[Write, Any] = Combiner(self._commit_together, most=MAX_SHARED)
        self._committing = threading.Lock()

    def open(self) -> None:
        """Bring the schema, and what is stored, up to date. Raises ConfigurationError when a newer release wrote it."""
        with self._translated():
            self._database.migrate(migrate)
        word_indexing.index_all(self)

    def open_part(self, part: str, steps: Sequence[Sequence[str]]) -> None:
        """The same for the tables of a layer above (`wrapper.catalog.migrations.migrate_part`)."""
        with self._translated():
            self._database.migrate(lambda connection: migrate_part(connection, part, steps))

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """One snapshot. Raises UnavailableError when the database cannot be read."""
        snapshot = object()
        self._snapshots[snapshot] = self._clock()
        try:
            with self._translated(), self._database.read() as transaction:
                yield transaction
        finally:
            del self._snapshots[snapshot]

    def oldest_snapshot_seconds(self) -> float:
        """Age of the oldest read of this process that is under way, 0 when there is none. What is written since then
        stays in the write-ahead log, or, on PostgreSQL, as dead rows."""
        begun = list(self._snapshots.values())
        return self._clock() - min(begun) if begun else 0.0

    def commit(self, operation: Callable[[Transaction], T]) -> T:
        """Run a write and return its result once it is on disk; whatever it raises leaves nothing behind. Raises
        LockedError when its turn has not come in time, or somebody else holds the database."""
        return cast(T, self._commits.do(Write(operation, self._clock())))

    def commit_quickly(self, operation: Callable[[Transaction], T]) -> T:
        """Run a write without waiting for the disk: one whose loss in a crash only means doing some work again."""
        with self._committing, self._translated(), self._database.write(durable=False) as transaction:
            return operation(transaction)

    def change_counter(self) -> AbstractContextManager[Callable[[], int]]:
        """A cheap number that changes when any other process or connection has committed."""
        return self._database.change_counter()

    @property
    def kind(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._database.kind

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._database.errors as error:
            raise self._database.translated(error) from error

    def _commit_together(self, jobs: list[_Job]) -> None:
        with self._committing:
            jobs = self._still_in_time(jobs)
            if not jobs:
                return
            if len(jobs) == 1:
                self._commit_alone(jobs[0])
                return
            outcomes: list[Callable[[], None]] = []
            try:
                with self._translated(), self._database.write() as transaction:
                    outcomes = [_in_savepoint(transaction, job) for job in jobs]
            except (OutcomeUnknownError, LockedError) as error:
                # They may be stored, or all have waited as long as one waits: nobody's is done a second time.
                for job in jobs:
                    job.fail(error)
                return
            except Exception:
                # Whose fault it was is not known: each has a transaction of its own.
                for job in jobs:
                    self._commit_alone(job)
                return
            for settle in outcomes:
                settle()

    def _still_in_time(self, jobs: list[_Job]) -> list[_Job]:
        """Those that have not waited their time behind others: the rest is told so, and waits for nobody again."""
        latest = self._clock() - TURN_SECONDS
        for job in jobs:
            if job.request.came_at < latest:
                job.fail(LockedError(LOCKED))
        return [job for job in jobs if not job.settled]

    def _commit_alone(self, job: _Job) -> None:
        try:
            with self._translated(), self._database.write() as transaction:
                result = job.request.operation(transaction)
        except Exception as error:
            job.fail(error)
        else:
            job.succeed(result)


def _in_savepoint(transaction: Transaction, job: _Job) -> Callable[[], None]:
    """Run a write so that its error is nobody else's; returns what settles it once it is on disk."""
    transaction.run("SAVEPOINT one_write")
    try:
        settle = partial(job.succeed, job.request.operation(transaction))
    except RagError as error:
        transaction.run("ROLLBACK TO one_write")
        settle = partial(job.fail, error)
    transaction.run("RELEASE one_write")
    return settle
