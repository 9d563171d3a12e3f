"""Measurements in the catalogue's database: the one that runs, and the figures of those that have ended."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from schemas.access.owners import Asker
from schemas.contracts.judgements import (
    CANCELLED,
    DONE,
    FAILED,
    MAX_BENCHES,
    RUNNING,
    BenchNotFoundError,
    BenchRunningError,
    KnownBench,
)
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure import Target
from schemas.storage.small_tables import Part, Table, having, owned_by

STEPS = (
    (
        """CREATE TABLE benches (
            id VARCHAR(40) PRIMARY KEY, number BIGINT NOT NULL, owner VARCHAR(200) NOT NULL,
            collection VARCHAR(512) NOT NULL, status VARCHAR(20) NOT NULL, created_at_ms BIGINT NOT NULL,
            told_at_ms BIGINT NOT NULL, finished_at_ms BIGINT, questions INTEGER NOT NULL, searches INTEGER NOT NULL,
            done INTEGER NOT NULL, message {text}, result {text}
        )""",
        "CREATE UNIQUE INDEX benches_in_order ON benches (number)",
    ),
)
LOST_AFTER_SECONDS = 120.0
"""How long a running measurement may tell nothing before it is taken for lost with its process. A search may take
a minute."""
LOST = "The process that ran it has ended"


BENCHES = Table("benches", KnownBench, without=("result",))


class StoredBenches(Part):
    """The measurements of one catalogue. Each is its owner's alone; administrators see all."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database, "benches", STEPS, Place("measurements", "removed", self.erase), clock=clock)

    def begin(self, collection: str, questions: int, searches: int, *, asker: Asker) -> KnownBench:
        """Store a measurement that runs from now on, and forget the owner's oldest beyond `MAX_BENCHES`. Raises
        BenchRunningError while another one runs, whoever's it is, and DiskFloorError."""
        now_ms, made = self._now_ms(), str(uuid.uuid4())

        def operation(transaction: Transaction) -> KnownBench:
            transaction.run(
                "UPDATE benches SET status = ?, message = ?, finished_at_ms = told_at_ms "
                "WHERE status = ? AND told_at_ms < ?",
                (FAILED, LOST, RUNNING, self._lost_before_ms()),
            )
            if BENCHES.count(transaction, having(status=RUNNING)):
                raise BenchRunningError
            BENCHES.insert(
                transaction,
                id=made,
                number=BENCHES.next_number(transaction),
                owner=asker.owner,
                collection=collection,
                status=RUNNING,
                created_at_ms=now_ms,
                told_at_ms=now_ms,
                questions=questions,
                searches=searches,
                done=0,
            )
            BENCHES.keep_first(transaction, MAX_BENCHES, having(owner=asker.owner))
            return self._one(transaction, made, asker)

        return self._database.commit(operation)

    def tell(self, bench_id: str, done: int) -> bool:
        """Store how many searches are through. Return False when it does not run any more: it was cancelled."""
        now_ms = self._now_ms()

        def operation(transaction: Transaction) -> bool:
            BENCHES.update(transaction, having(id=bench_id), told_at_ms=now_ms, done=done)
            return BENCHES.count(transaction, having(id=bench_id, status=RUNNING)) > 0

        return self._database.freely.commit_quickly(operation)

    def finish(self, bench_id: str, result: Mapping[str, Any]) -> None:
        self._end(bench_id, status=DONE, result=orjson.dumps(result).decode())

    def fail(self, bench_id: str, message: str) -> None:
        self._end(bench_id, status=FAILED, message=message)

    def all(self, *, asker: Asker) -> list[KnownBench]:
        """Return the measurements that the asker sees, the latest first, without their figures by question."""
        with self._database.read() as transaction:
            return [self._known(row) for row in BENCHES.rows(transaction, owned_by(asker), limit=MAX_BENCHES)]

    def one(self, bench_id: str, *, asker: Asker) -> KnownBench:
        """Return a measurement with its figures. Raises BenchNotFoundError when the asker sees none of that id."""
        with self._database.read() as transaction:
            found = self._one(transaction, bench_id, asker)
            row = transaction.row("SELECT result FROM benches WHERE id = ?", (bench_id,))
        return found if row is None or row[0] is None else replace(found, result=orjson.loads(row[0]))

    def end(self, bench_id: str, *, asker: Asker) -> KnownBench:
        """Cancel a measurement that runs, forget one that has ended, and return it. Raises BenchNotFoundError."""

        def operation(transaction: Transaction) -> KnownBench:
            found = self._one(transaction, bench_id, asker)
            if found.status != RUNNING:
                BENCHES.delete(transaction, having(id=bench_id))
                return found
            BENCHES.update(transaction, having(id=bench_id), status=CANCELLED, finished_at_ms=self._now_ms())
            return self._one(transaction, bench_id, asker)

        return self._database.freely.commit(operation)

    def erase(self, target: Target) -> int:
        """Forget the measurements of an erased user, which have their questions. Return their number."""
        of_user = having(owner=target.owner)
        return self._database.freely.commit(lambda transaction: BENCHES.remove(transaction, of_user))

    def _end(self, bench_id: str, **outcome: str) -> None:
        # One that was forgotten or cancelled meanwhile stays so.
        running, now_ms = having(id=bench_id, status=RUNNING), self._now_ms()
        self._database.freely.commit(
            lambda transaction: BENCHES.update(transaction, running, finished_at_ms=now_ms, **outcome)
        )

    def _one(self, transaction: Transaction, bench_id: str, asker: Asker) -> KnownBench:
        found = BENCHES.first(transaction, owned_by(asker) & having(id=bench_id))
        if found is None:
            raise BenchNotFoundError(bench_id)
        return self._known(found)

    def _known(self, bench: KnownBench) -> KnownBench:
        if bench.status == RUNNING and bench.told_at_ms < self._lost_before_ms():
            return replace(bench, status=FAILED, message=LOST, finished_at_ms=bench.told_at_ms)
        return bench

    def _lost_before_ms(self) -> int:
        return self._now_ms() - round(LOST_AFTER_SECONDS * 1e3)
