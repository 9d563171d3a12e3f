"""Jobs in the catalogue's database: what waits, what runs and what became of each file."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from retrieval.clock import z_time
from schemas.contracts.jobs import (
    CANCELLED,
    DONE,
    EMBEDDING,
    FAILED,
    QUEUED,
    READING,
    RUNNING,
    UNCHANGED,
    WAITING,
    Job,
    JobFile,
    JobNotFoundError,
    JobsFullError,
    SpooledFile,
    Wanted,
)
from schemas.errors import InvalidInputError
from schemas.shared_database import Database, Transaction

STEPS = (
    (
        """CREATE TABLE jobs (
            id VARCHAR(40) PRIMARY KEY, number BIGINT NOT NULL, owner VARCHAR(200) NOT NULL, home VARCHAR(40) NOT NULL,
            wanted {text} NOT NULL, status VARCHAR(20) NOT NULL, created_at_ms BIGINT NOT NULL, finished_at_ms BIGINT
        )""",
        "CREATE UNIQUE INDEX jobs_in_order ON jobs (number)",
        "CREATE INDEX jobs_by_status ON jobs (status, number)",
        """CREATE TABLE job_files (
            job_id VARCHAR(40) NOT NULL, number INTEGER NOT NULL, name {text} NOT NULL, media_type {text} NOT NULL,
            size_bytes BIGINT NOT NULL, status VARCHAR(20) NOT NULL, document_id VARCHAR(100), chunks INTEGER,
            chunks_done INTEGER NOT NULL, pages INTEGER, warnings {text} NOT NULL, code VARCHAR(100), message {text},
            begun INTEGER NOT NULL, PRIMARY KEY (job_id, number)
        )""",
    ),
)
MAX_WARNINGS = 20
"""The most warnings of a file that are kept."""
_JOB = "SELECT id, status, created_at_ms, finished_at_ms, wanted, number FROM jobs"
_FILE = (
    "SELECT number, name, media_type, size_bytes, status, document_id, chunks, chunks_done, pages, warnings, code, "
    "message FROM job_files"
)
_UNFINISHED = (QUEUED, READING, EMBEDDING)


@dataclass(frozen=True, slots=True)
class Limits:
    """The most jobs that wait, and the most bytes of their files, in one data directory."""

    jobs: int = 1_000
    spool_bytes: int = 4 << 30


class StoredJobs:
    """The jobs of one catalogue; safe for use by several threads and processes.

    Each job belongs to the data directory whose spool has its files, its `home`. No owner sees the jobs of another.
    `clock` returns seconds since the epoch.
    """

    def __init__(
        self, database: Database, home: str, limits: Limits = Limits(), clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._home = home
        self._limits = limits
        self._clock = clock
        database.open_part("jobs", STEPS)

    def room_bytes(self) -> int:
        """Return how many bytes of files may still wait. Raises JobsFullError when no job may."""
        with self._database.read() as transaction:
            return self._room_bytes(transaction)

    def create(self, job_id: str, wanted: Wanted, files: Sequence[SpooledFile], *, owner: str) -> None:
        """Store a job that waits; its files are in the spool, safe on the disk. Raises JobsFullError."""
        now_ms = round(self._clock() * 1e3)
        told = orjson.dumps(wanted).decode()

        def operation(transaction: Transaction) -> None:
            if self._room_bytes(transaction) < sum(each.size_bytes for each in files):
                raise JobsFullError("Too large files are waiting for the jobs before them")
            row = transaction.row("SELECT MAX(number) FROM jobs")
            number = 0 if row is None or row[0] is None else int(row[0]) + 1
            transaction.run(
                "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (job_id, number, owner, self._home, told, QUEUED, now_ms, None),
            )
            for each in files:
                transaction.run(
                    "INSERT INTO job_files VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, 0, NULL, '[]', NULL, NULL, 0)",
                    (job_id, each.number, each.name, each.media_type, each.size_bytes, QUEUED),
                )

        self._database.commit(operation)

    def one(self, job_id: str, *, owner: str) -> Job:
        """Return a job. Raises JobNotFoundError when there is none."""
        with self._database.read() as transaction:
            return _owned(transaction, job_id, owner)

    def page(
        self, *, owner: str, status: str | None = None, limit: int, cursor: str | None = None
    ) -> tuple[list[Job], str | None]:
        """Return jobs, the newest first, and the cursor of the next page. Raises InvalidInputError for a wrong one."""
        conditions, parameters = ["owner = ?"], [owner]
        if status is not None:
            conditions.append("status = ?")
            parameters.append(status)
        before = [] if cursor is None else [_decoded(cursor)]
        conditions += ["number < ?"] * len(before)
        with self._database.read() as transaction:
            rows = transaction.rows(
                f"{_JOB} WHERE {' AND '.join(conditions)} ORDER BY number DESC LIMIT ?",
                (*parameters, *before, limit + 1),
            )
            jobs = [_job(transaction, row) for row in rows[:limit]]
        return jobs, _encoded(rows[limit - 1][5]) if len(rows) > limit else None

    def cancel(self, job_id: str, *, owner: str) -> tuple[Job, bool]:
        """Cancel a job that has not ended, and return it and whether it was still waiting. What it has stored stays.

        One that has ended stays as it is. Raises JobNotFoundError when there is none.
        """

        def operation(transaction: Transaction) -> tuple[Job, bool]:
            was_waiting = _owned(transaction, job_id, owner).status == QUEUED
            self._end(transaction, job_id, CANCELLED)
            # Also where the process that worked on them was killed and nobody else has begun.
            transaction.run(
                "UPDATE job_files SET status = ?, chunks_done = 0 WHERE job_id = ? AND status IN (?, ?)",
                (QUEUED, job_id, READING, EMBEDDING),
            )
            return _owned(transaction, job_id, owner), was_waiting

        return self._database.commit(operation)

    def take(self) -> Job | None:
        """Return the next job of this data directory, which runs from now on: the one that ran when its runner ended,
        else the oldest that waits. None when there is nothing to do."""

        def operation(transaction: Transaction) -> Job | None:
            row = transaction.row(
                f"{_JOB} WHERE home = ? AND status IN (?, ?) "
                "ORDER BY CASE status WHEN ? THEN 0 ELSE 1 END, number LIMIT 1",
                (self._home, *WAITING, RUNNING),
            )
            if row is None:
                return None
            transaction.run("UPDATE jobs SET status = ? WHERE id = ?", (RUNNING, row[0]))
            return _job(transaction, (row[0], RUNNING, *row[2:]))

        with self._database.read() as transaction:  # mostly there is nothing to do, which is seen without a write
            if (
                transaction.row("SELECT 1 FROM jobs WHERE home = ? AND status IN (?, ?)", (self._home, *WAITING))
                is None
            ):
                return None
        return self._database.commit(operation)

    def is_running(self, job_id: str) -> bool:
        """Return False once the job is cancelled."""
        with self._database.read() as transaction:
            row = transaction.row("SELECT status FROM jobs WHERE id = ?", (job_id,))
        return row is not None and row[0] == RUNNING

    def begin_file(self, job_id: str, number: int) -> int:
        """Count that the work on a file begins, and return how often it has."""

        def operation(transaction: Transaction) -> int:
            transaction.run("UPDATE job_files SET begun = begun + 1 WHERE job_id = ? AND number = ?", (job_id, number))
            row = transaction.row("SELECT begun FROM job_files WHERE job_id = ? AND number = ?", (job_id, number))
            return 0 if row is None else int(row[0])

        return self._database.commit(operation)

    def tell(self, job_id: str, file: JobFile, *, lasting: bool = False) -> None:
        """Store how far a file is, with `lasting` so that it survives a loss of power."""
        warnings = orjson.dumps(list(file.warnings[:MAX_WARNINGS])).decode()

        def operation(transaction: Transaction) -> None:
            transaction.run(
                "UPDATE job_files SET status = ?, document_id = ?, chunks = ?, chunks_done = ?, pages = ?, "
                "warnings = ?, code = ?, message = ? WHERE job_id = ? AND number = ?",
                (
                    *(file.status, file.document_id, file.chunks, file.chunks_done, file.pages),
                    *(warnings, file.code, file.message, job_id, file.number),
                ),
            )

        (self._database.commit if lasting else self._database.commit_quickly)(operation)

    def finish(self, job_id: str) -> None:
        """End a job whose files are through: `done` when at least one of them is stored."""

        def operation(transaction: Transaction) -> None:
            stored = transaction.row(
                "SELECT 1 FROM job_files WHERE job_id = ? AND status IN (?, ?) LIMIT 1", (job_id, DONE, UNCHANGED)
            )
            self._end(transaction, job_id, DONE if stored else FAILED)

        self._database.commit(operation)

    def waiting(self, job_ids: Collection[str]) -> set[str]:
        """Return those of the jobs that have not ended."""
        with self._database.read() as transaction:
            rows = transaction.rows("SELECT id FROM jobs WHERE status IN (?, ?)", WAITING)
        return {row[0] for row in rows} & set(job_ids)

    def discard(self, job_id: str) -> None:
        """Forget a job that was never told to anybody."""
        self._database.commit(lambda transaction: _forget(transaction, "id = ?", job_id))

    def forget_ended(self, older_than_days: float) -> None:
        """Forget the jobs that ended so long ago."""
        ended_before_ms = round((self._clock() - older_than_days * 86_400) * 1e3)
        self._database.commit_quickly(
            lambda transaction: _forget(
                transaction, "finished_at_ms IS NOT NULL AND finished_at_ms < ?", ended_before_ms
            )
        )

    def _end(self, transaction: Transaction, job_id: str, status: str) -> None:
        transaction.run(
            "UPDATE jobs SET status = ?, finished_at_ms = ? WHERE id = ? AND status IN (?, ?)",
            (status, round(self._clock() * 1e3), job_id, *WAITING),
        )

    def _room_bytes(self, transaction: Transaction) -> int:
        jobs = transaction.row("SELECT COUNT(*) FROM jobs WHERE home = ? AND status IN (?, ?)", (self._home, *WAITING))
        if jobs is not None and jobs[0] >= self._limits.jobs:
            raise JobsFullError("Too many jobs are waiting")
        taken = transaction.row(
            "SELECT COALESCE(SUM(size_bytes), 0) FROM job_files WHERE status IN (?, ?, ?) "
            "AND job_id IN (SELECT id FROM jobs WHERE home = ? AND status IN (?, ?))",
            (*_UNFINISHED, self._home, *WAITING),
        )
        return self._limits.spool_bytes - (0 if taken is None else int(taken[0]))


def _owned(transaction: Transaction, job_id: str, owner: str) -> Job:
    row = transaction.row(f"{_JOB} WHERE id = ? AND owner = ?", (job_id, owner))
    if row is None:
        raise JobNotFoundError(job_id)
    return _job(transaction, row)


def _job(transaction: Transaction, row: tuple[Any, ...]) -> Job:
    job_id, status, created_at_ms, finished_at_ms, wanted, _ = row
    told = orjson.loads(wanted)
    files = transaction.rows(f"{_FILE} WHERE job_id = ? ORDER BY number", (job_id,))
    return Job(
        id=job_id,
        status=status,
        created_at=_time(created_at_ms),
        finished_at=None if finished_at_ms is None else _time(finished_at_ms),
        wanted=Wanted(**{**told, "tags": tuple(told["tags"])}),
        files=tuple(_file(each) for each in files),
    )


def _file(row: tuple[Any, ...]) -> JobFile:
    return JobFile(*(*row[:9], tuple(orjson.loads(row[9])), *row[10:]))


def _forget(transaction: Transaction, condition: str, parameter: Any) -> None:
    transaction.run(f"DELETE FROM job_files WHERE job_id IN (SELECT id FROM jobs WHERE {condition})", (parameter,))
    transaction.run(f"DELETE FROM jobs WHERE {condition}", (parameter,))


def _time(at_ms: int) -> str:
    return z_time(datetime.fromtimestamp(at_ms / 1e3, UTC))


def _encoded(number: int) -> str:
    return base64.urlsafe_b64encode(f"jobs:{number}".encode()).decode().rstrip("=")


def _decoded(cursor: str) -> int:
    try:
        word, _, number = (
            base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode().partition(":")
        )
        if word == "jobs" and number.isascii() and number.isdigit() and len(number) < 19:
            return int(number)
    except ValueError:
        pass
    raise InvalidInputError("Invalid cursor", code="invalid_cursor", field="cursor")
