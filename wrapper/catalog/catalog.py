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
from wrapper.catalog.database import LOCKED, WAIT_SECONDS, Database, LockedError, OutcomeUnknownError
from wrapper.catalog.migrations import migrate, migrate_part
from wrapper.catalog.transaction import Transaction
from wrapper.combining import Combiner, GivenUpError, Ticket

T = TypeVar("T")
Operation = Callable[[Transaction], Any]
MAX_SHARED = 64


class Write(NamedTuple):
    """A write on its way, and when it came."""

    operation: Operation
    came_at: float


_Job = Ticket[Write, Any]


class Catalog:
    """Open with `open()`; safe for any number of threads and, through the database, of processes."""

    def __init__(
        self, database: Database, clock: Callable[[], float] = time.monotonic, *, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._database = database
        self._clock = clock
        self._wait_seconds = wait_seconds
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
        LockedError when it could not begin within `wait_seconds`, for others of this process or of another."""
        try:
            write = Write(operation, self._clock())
            return cast(T, self._commits.do(write, begun_within_seconds=self._wait_seconds))
        except GivenUpError:
            raise LockedError(LOCKED) from None

    def commit_quickly(self, operation: Callable[[Transaction], T]) -> T:
        """Run a write without waiting for the disk: one whose loss in a crash only means doing some work again. Raises
        LockedError as `commit` does."""
        with self._writing(self._clock(), durable=False) as transaction:
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

    @contextmanager
    def _writing(self, came_at: float, *, durable: bool = True) -> Iterator[Transaction]:
        """The write transaction of who came then, and has waited since."""
        if not self._committing.acquire(timeout=self._left_seconds(came_at)):
            raise LockedError(LOCKED)
        try:
            left_seconds = self._left_seconds(came_at)
            with self._translated(), self._database.write(durable=durable, wait_seconds=left_seconds) as transaction:
                yield transaction
        finally:
            self._committing.release()

    def _left_seconds(self, came_at: float) -> float:
        return max(0.0, came_at + self._wait_seconds - self._clock())

    def _commit_together(self, jobs: list[_Job]) -> None:
        """The first is the one of who leads. Those left unsettled have their turn without it."""
        own = jobs[0]
        for job in jobs:
            if self._left_seconds(job.request.came_at) == 0.0:
                job.fail(LockedError(LOCKED))
        if own.settled:
            return
        jobs = [job for job in jobs if not job.settled]
        if len(jobs) == 1:
            self._commit_alone(own)
            return
        outcomes: list[Callable[[], None]] = []
        try:
            with self._writing(own.request.came_at) as transaction:
                outcomes = [_in_savepoint(transaction, job) for job in jobs if job.begin()]
        except LockedError as error:
            # Who came when this one did has waited as long as it; who came later has not.
            for job in jobs:
                if job.request.came_at <= own.request.came_at:
                    job.fail(error)
        except OutcomeUnknownError as error:
            # They may be stored: nobody's is done a second time.
            for job in jobs:
                job.fail(error)
        except Exception:
            # Whose fault it was is not known: each has a transaction of its own.
            for job in jobs:
                self._commit_alone(job)
        else:
            for settle in outcomes:
                settle()

    def _commit_alone(self, job: _Job) -> None:
        try:
            with self._writing(job.request.came_at) as transaction:
                if not job.begin():
                    return
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
