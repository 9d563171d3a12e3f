"""Transactions on the catalogue, and the commit that concurrent writers share.

Writers that arrive while a commit is on its way to the disk wait for each other and go into one transaction, each in a
savepoint of its own: an error of one affects no other, and they pay for one commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from schemas.errors import RagError, TooSlowError
from schemas.giving_way import QUESTIONS
from schemas.shared_database import Place
from schemas.storage import read_limits
from schemas.storage.erasure_count import open_erasure_count
from wrapper.catalog.contract import (
    LOCKED,
    WAIT_SECONDS,
    ChangeCounter,
    Database,
    LockedError,
    OutcomeUnknownError,
    Transaction,
)
from wrapper.catalog.migrations import migrate, migrate_part
from wrapper.catalog.words import reindexing
from wrapper.coalescing import Coalescer, GivenUpError, Ticket

T = TypeVar("T")
Operation = Callable[[Transaction], Any]
MAX_SHARED = 64
GIVES_WAY_SECONDS = 0.02
"""The most that a computation waits at a time for the write that this process has under way."""


class Write(NamedTuple):
    """A write that waits for its transaction, and when it arrived."""

    operation: Operation
    came_at: float


_Job = Ticket[Write, Any]


class Catalog:
    """The catalogue of one database, opened with `open()`.

    Safe for any number of threads and, through the database, of processes.
    """

    def __init__(
        self, database: Database, clock: Callable[[], float] = time.monotonic, *, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._database = database
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._snapshots: dict[object, float] = {}
        self._places: dict[str, Place] = {}
        self._commits: Coalescer[Write, Any] = Coalescer(self._commit_together, most=MAX_SHARED)
        self._committing = threading.Lock()
        self._nobody_writes = threading.Event()
        self._nobody_writes.set()

    def open(self) -> None:
        """Bring the schema and the stored data up to date.

        Raises ConfigurationError when a newer release wrote them.
        """
        with self._translated():
            self._database.migrate(migrate)
        open_erasure_count(self)
        reindexing.index_all(self)

    @property
    def places(self) -> tuple[Place, ...]:
        """What erasures clean of the parts that were opened."""
        return tuple(self._places.values())

    def open_part(self, part: str, steps: Sequence[Sequence[str]], place: Place | None = None) -> None:
        """Bring the tables of a layer above up to date (`wrapper.catalog.migrations.migrate_part`)."""
        with self._translated():
            self._database.migrate(lambda connection: migrate_part(connection, part, steps))
        if place is not None:
            self._places[place.name] = place

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Open a read transaction on one snapshot. Raises UnavailableError when the database cannot be read, and
        ReadTimeoutError or ClientGoneError when the limit of this thread's reads (`schemas/storage/read_limits.py`) is
        over, here and in the transaction."""
        limit = read_limits.current()
        if limit is not None:
            limit.check()
        snapshot = object()
        self._snapshots[snapshot] = self._clock()
        try:
            with self._translated(), self._database.read(limit) as transaction:
                yield transaction
        except TooSlowError:
            if limit is not None:
                limit.check()
            raise
        finally:
            del self._snapshots[snapshot]

    def oldest_snapshot_seconds(self) -> float:
        """Return the age of the oldest read that this process has under way, 0 when there is none.

        Rows replaced since that read began stay in the write-ahead log or, on PostgreSQL, as dead rows.
        """
        begun = list(self._snapshots.values())
        return self._clock() - min(begun) if begun else 0.0

    def commit(self, operation: Callable[[Transaction], T]) -> T:
        """Run a write and return its result once it is on disk. A write that raises leaves nothing behind.

        Whoever's thread commits it, it runs in the context of this call: for its caller, and noted for its request.

        Raises LockedError when the write could not begin within `wait_seconds` because others, of this process or of
        another, were writing.
        """
        try:
            context = copy_context()
            write = Write(lambda transaction: context.run(operation, transaction), self._clock())
            return cast(T, self._commits.do(write, begun_within_seconds=self._wait_seconds))
        except GivenUpError:
            raise LockedError(LOCKED) from None

    def commit_quickly(self, operation: Callable[[Transaction], T], *, wait_seconds: float | None = None) -> T:
        """Run a write without waiting for the disk, for writes whose loss in a crash only means doing some work again.

        Raises LockedError when the write could not begin within `wait_seconds`, those of `commit` unless given.
        """
        waited_seconds = 0.0 if wait_seconds is None else self._wait_seconds - wait_seconds
        with self._writing(self._clock() - waited_seconds, durable=False) as transaction:
            return operation(transaction)

    def give_way(self) -> None:
        """Wait a moment while another thread of this process holds the write lock, and in the background for questions.

        That one gives Python's interpreter lock away with each statement. From a thread that computes it gets that back
        milliseconds later, and writers of other processes wait as long.
        """
        self._nobody_writes.wait(GIVES_WAY_SECONDS)
        QUESTIONS.let_pass()

    def change_counter(self) -> AbstractContextManager[ChangeCounter]:
        """Open a cheap counter whose number changes when any other process or connection has committed."""
        return self._database.change_counter()

    def rewrite(self, *, wait_seconds: float) -> str | None:
        """Write all that is stored anew (`Database.rewrite`). Raises LockedError when others write for too long."""
        with self._translated():
            return self._database.rewrite(wait_seconds=wait_seconds)

    @property
    def freely(self) -> Catalog:
        """This catalogue: the storage itself asks for room before it begins to write."""
        return self

    @property
    def kind(self) -> str:
        """The kind of the database: `sqlite` or `postgresql`."""
        return self._database.kind

    @property
    def servers(self) -> list[tuple[str, int]]:
        """The hosts and ports that answer for the database, none for a file."""
        return self._database.servers

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
        """Open the write transaction of a writer that arrived at `came_at` and has waited since."""
        if not self._committing.acquire(timeout=self._left_seconds(came_at)):
            raise LockedError(LOCKED)
        try:
            left_seconds = self._left_seconds(came_at)
            with self._translated(), self._database.write(durable=durable, wait_seconds=left_seconds) as transaction:
                self._nobody_writes.clear()
                try:
                    yield transaction
                finally:
                    self._nobody_writes.set()
        finally:
            self._committing.release()

    def _left_seconds(self, came_at: float) -> float:
        return max(0.0, came_at + self._wait_seconds - self._clock())

    def _commit_together(self, jobs: list[_Job]) -> None:
        """Run the jobs in one transaction.

        The first job is the leader's own; a job left unsettled gets its turn later, without this leader.
        """
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
            # A job that came no later than this one has waited at least as long; a job that came later has not.
            for job in jobs:
                if job.request.came_at <= own.request.came_at:
                    job.fail(error)
        except OutcomeUnknownError as error:
            # The writes may be stored, so none of them is done a second time.
            for job in jobs:
                job.fail(error)
        except Exception:
            # Which job failed is not known, so each gets a transaction of its own.
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
    """Run a write in a savepoint, so that its error affects no other write.

    Return what settles it once it is on disk.
    """
    transaction.run("SAVEPOINT one_write")
    try:
        settle = partial(job.succeed, job.request.operation(transaction))
    except RagError as error:
        transaction.run("ROLLBACK TO one_write")
        settle = partial(job.fail, error)
    transaction.run("RELEASE one_write")
    return settle
