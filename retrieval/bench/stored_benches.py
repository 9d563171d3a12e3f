"""Measurements in the catalogue's database: the one that runs, and the figures of those that have ended."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from retrieval.clock import z_time
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
from schemas.shared_database import Database, Transaction
from schemas.storage.erasure import Target

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
_COLUMNS = (
    "SELECT id, collection, status, created_at_ms, finished_at_ms, questions, searches, done, message, owner, "
    "told_at_ms FROM benches"
)


class StoredBenches:
    """The measurements of one catalogue; safe for use by several threads and processes.

    Each is its owner's alone; administrators see all. `clock` returns seconds since the epoch.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        database.open_part("benches", STEPS)

    def begin(self, collection: str, questions: int, searches: int, *, asker: Asker) -> KnownBench:
        """Store a measurement that runs from now on, and forget the owner's oldest beyond `MAX_BENCHES`. Raises
        BenchRunningError while another one runs, whoever's it is, and DiskFloorError."""
        now_ms, made = self._now_ms(), str(uuid.uuid4())

        def operation(transaction: Transaction) -> KnownBench:
            running = transaction.rows("SELECT told_at_ms FROM benches WHERE status = ?", (RUNNING,))
            if not all(self._is_lost(row[0]) for row in running):
                raise BenchRunningError
            transaction.run(
                "UPDATE benches SET status = ?, message = ?, finished_at_ms = told_at_ms WHERE status = ?",
                (FAILED, LOST, RUNNING),
            )
            last = transaction.row("SELECT MAX(number) FROM benches")
            number = 0 if last is None or last[0] is None else int(last[0]) + 1
            transaction.run(
                "INSERT INTO benches VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?, ?, 0, NULL, NULL)",
                (made, number, asker.owner, collection, RUNNING, now_ms, now_ms, questions, searches),
            )
            rows = transaction.rows("SELECT id FROM benches WHERE owner = ? ORDER BY number DESC", (asker.owner,))
            for row in rows[MAX_BENCHES:]:
                transaction.run("DELETE FROM benches WHERE id = ?", row)
            return self._one(transaction, made, asker)

        return self._database.commit(operation)

    def tell(self, bench_id: str, done: int) -> bool:
        """Store how many searches are through. Return False when it does not run any more: it was cancelled."""
        now_ms = self._now_ms()

        def operation(transaction: Transaction) -> bool:
            row = transaction.row("SELECT status FROM benches WHERE id = ?", (bench_id,))
            transaction.run("UPDATE benches SET told_at_ms = ?, done = ? WHERE id = ?", (now_ms, done, bench_id))
            return row is not None and row[0] == RUNNING

        return self._database.freely.commit_quickly(operation)

    def finish(self, bench_id: str, result: Mapping[str, Any]) -> None:
        self._end(bench_id, DONE, result=orjson.dumps(result).decode())

    def fail(self, bench_id: str, message: str) -> None:
        self._end(bench_id, FAILED, message=message)

    def all(self, *, asker: Asker) -> list[KnownBench]:
        """Return the measurements that the asker sees, the latest first, without their figures by question."""
        condition, parameters = ("1 = 1", ()) if asker.sees_all else ("owner = ?", (asker.owner,))
        with self._database.read() as transaction:
            rows = transaction.rows(
                f"{_COLUMNS} WHERE {condition} ORDER BY number DESC LIMIT ?", (*parameters, MAX_BENCHES)
            )
        return [self._known(row) for row in rows]

    def one(self, bench_id: str, *, asker: Asker) -> KnownBench:
        """Return a measurement with its figures. Raises BenchNotFoundError when the asker sees none of that id."""
        with self._database.read() as transaction:
            found = self._one(transaction, bench_id, asker)
            row = transaction.row("SELECT result FROM benches WHERE id = ?", (bench_id,))
        return found if row is None or row[0] is None else replace(found, result=orjson.loads(row[0]))

    def end(self, bench_id: str, *, asker: Asker) -> KnownBench:
        """Cancel a measurement that runs, forget one that has ended, and return it. Raises BenchNotFoundError."""
        now_ms = self._now_ms()

        def operation(transaction: Transaction) -> KnownBench:
            found = self._one(transaction, bench_id, asker)
            if found.status != RUNNING:
                transaction.run("DELETE FROM benches WHERE id = ?", (bench_id,))
                return found
            transaction.run(
                "UPDATE benches SET status = ?, finished_at_ms = ? WHERE id = ?", (CANCELLED, now_ms, bench_id)
            )
            return self._one(transaction, bench_id, asker)

        return self._database.freely.commit(operation)

    def erase(self, target: Target) -> int:
        """Forget the measurements of an erased user, which have their questions. Return their number."""
        if target.owner is None:
            return 0

        def operation(transaction: Transaction) -> int:
            row = transaction.row("SELECT count(*) FROM benches WHERE owner = ?", (target.owner,))
            transaction.run("DELETE FROM benches WHERE owner = ?", (target.owner,))
            return 0 if row is None else int(row[0])

        return self._database.freely.commit(operation)

    def _end(self, bench_id: str, status: str, *, message: str | None = None, result: str | None = None) -> None:
        values = (status, self._now_ms(), message, result, bench_id, RUNNING)
        # One that was forgotten or cancelled meanwhile stays so.
        self._database.freely.commit(
            lambda transaction: transaction.run(
                "UPDATE benches SET status = ?, finished_at_ms = ?, message = ?, result = ? "
                "WHERE id = ? AND status = ?",
                values,
            )
        )

    def _one(self, transaction: Transaction, bench_id: str, asker: Asker) -> KnownBench:
        row = transaction.row(f"{_COLUMNS} WHERE id = ?", (bench_id,))
        if row is None or not (asker.sees_all or row[9] == asker.owner):
            raise BenchNotFoundError(bench_id)
        return self._known(row)

    def _known(self, row: tuple[Any, ...]) -> KnownBench:
        bench_id, collection, status, created_at_ms, finished_at_ms, questions, searches, done, message, owner, told = (
            row
        )
        if status == RUNNING and self._is_lost(told):
            status, message, finished_at_ms = FAILED, LOST, told
        return KnownBench(
            bench_id,
            collection,
            status,
            _moment(created_at_ms),
            None if finished_at_ms is None else _moment(finished_at_ms),
            questions,
            searches,
            done,
            message,
            owner,
        )

    def _is_lost(self, told_at_ms: int) -> bool:
        return self._now_ms() - told_at_ms > LOST_AFTER_SECONDS * 1e3

    def _now_ms(self) -> int:
        return round(self._clock() * 1e3)


def _moment(time_ms: int) -> str:
    return z_time(datetime.fromtimestamp(time_ms / 1e3, UTC))
