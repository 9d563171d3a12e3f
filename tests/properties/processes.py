"""Run one process of the service without its threads: the same parts, driven step by step, which may die at any
step."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from schemas.storage.leadership import FileLeadership
from tests.properties.catalogs import QuickDatabase
from tests.properties.fake_engine import Interposed
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.held_documents import HeldDocuments
from wrapper.catalog.index_state import outbox
from wrapper.catalog.words.merging import WordMerging
from wrapper.indexing.applying import Applier
from wrapper.indexing.indexer import Indexer
from wrapper.querying.planner import Planner
from wrapper.store import Store
from wrapper.writing import Writing

STATEMENTS = ("run", "run_many", "insert", "row", "rows", "value")
PATIENCE = 200
STEP = 1 if "RAG_SOAK_EACH" in os.environ else 7
"""Of the steps at which a process may die, every seventh is tried in a usual run, and in a soak each."""


class Crash(BaseException):
    """The process died."""


class Steps:
    """Counts the steps of a process and ends it before the one numbered `crash_at`.

    A step is each commit, each beginning of a write transaction, and both ends of each engine call; with `statements`,
    also each statement of a write transaction.
    """

    def __init__(self, crash_at: int | None = None, *, statements: bool = False) -> None:
        self.taken = 0
        self.statements = statements
        self._crash_at = crash_at

    def __call__(self, name: str) -> None:
        if self.taken == self._crash_at:
            raise Crash(name)
        self.taken += 1


class _SteppedTransaction:
    def __init__(self, transaction: Transaction, steps: Steps) -> None:
        self._transaction = transaction
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._transaction, name)
        if name not in STATEMENTS or not self._steps.statements:
            return method

        def stepped(*args: Any) -> Any:
            self._steps(name)
            return method(*args)

        return stepped


class _SteppedDatabase(QuickDatabase):
    def __init__(self, path: Path, steps: Steps) -> None:
        super().__init__(path)
        self._steps = steps

    @contextmanager
    def write(self, **how: Any) -> Iterator[Any]:
        with super().write(**how) as transaction:
            self._steps("write")
            yield _SteppedTransaction(transaction, self._steps)
            self._steps("before commit")
        self._steps("after commit")


class Process:
    """A catalogue, applier, indexer, planner and store on one directory and one engine.

    Opening it is a start of the service; `steps` may end it. Unless a clock is given, time passes by itself, so nothing
    ever waits.
    """

    def __init__(
        self,
        directory: Path,
        engine: Any,
        steps: Steps | None = None,
        *,
        clock: Callable[[], float] | None = None,
        **options: Any,
    ) -> None:
        steps = steps or Steps()
        ticks = count(step=2)
        clock = clock or (lambda: float(next(ticks)))
        self.now = clock
        self.path = directory / "catalog.sqlite"
        self.catalog = Catalog(_SteppedDatabase(self.path, steps))
        self.catalog.open()
        self.engine = Interposed(engine, before=steps, after=steps)
        self.restarts_asked = 0
        self.engine_up = True
        self.index_bytes: dict[str, int] = {}
        self.engine_release = "chromadb 1.0"
        self.applier = Applier(
            self.catalog,
            self.engine,
            incarnation=lambda: self.restarts_asked if self.engine_up else None,
            restart_engine=self._restart_engine,
            index_bytes=self.index_bytes.get,
            engine_release=lambda: self.engine_release,
            clock=clock,
            **options,
        )
        self._merging = WordMerging(self.catalog, clock, merged_at_once=2)
        self._leadership = FileLeadership(directory / "indexer.lock")
        self._indexer = Indexer(self.catalog, self.applier, self._leadership, clock=clock)
        held = HeldDocuments()
        self.planner = Planner(self.catalog, self, documents=held)
        self.store = Store(
            self.catalog,
            self.planner,
            self._indexer,
            Writing(
                self.catalog,
                self._indexer,
                free_disk_mb=lambda: 1e9,
                disk_floor_mb=0,
                write_wait_seconds=0.0,
                waiting_writers=4,
            ),
            held,
        )

    def is_ready(self) -> bool:
        return self.engine_up

    def nearest(self, engine_id: str, embedding: Any, n_results: int) -> list[str]:
        found: list[str] = self.engine.query(engine_id, embedding[None], n_results)[0]
        return found

    def lead(self) -> None:
        assert self._leadership.acquire()
        self.applier.take_over()

    def lead_again(self) -> None:
        """Take over the leadership as another process would."""
        self.applier.take_over()

    def drain(self, rounds: int = PATIENCE) -> None:
        """Do what the indexer's thread does until nothing is left to do, at most `rounds` times."""
        for _ in range(rounds):
            while self._indexer._drain_some():
                pass
            self.applier.maintain()
            while self._merging.step():
                pass
            if not (self.lag() or self.applier.busy_collections() or self.applier.has_work() or self.applier._rests):
                return

    def drain_until(self, condition: Callable[[], object]) -> None:
        """Drain until the condition holds."""
        for _ in range(PATIENCE):
            if condition():
                return
            self.drain(rounds=1)
        raise AssertionError("never")

    def applies_at_once(self) -> None:
        """Apply each write while its writer waits for it."""
        wait = self._indexer.wait

        def drain_and_wait(entry: int, timeout_seconds: float) -> bool:
            self.drain()
            return wait(entry, timeout_seconds)

        self._indexer.wait = drain_and_wait  # type: ignore[method-assign]

    def lag(self) -> int:
        with self.catalog.read() as transaction:
            return outbox.lag(transaction)

    def close(self) -> None:
        self._leadership.release()
        self.catalog.close()

    def _restart_engine(self) -> None:
        self.restarts_asked += 1
