"""Jobs in the catalogue's database: what waits, what runs and what became of each file."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import orjson

from retrieval.jobs.job_rows import JOB, STEPS, UNFINISHED, attachment_row, forget, seen_job, to_job
from schemas.access.owners import Asker
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
    JobCounts,
    JobFile,
    JobNotFoundError,
    JobsFullError,
    SpooledFile,
    Wanted,
)
from schemas.sealed_cursors import opened, sealed
from schemas.shared_database import Database, Transaction

MAX_WARNINGS = 20
"""The most warnings of a file that are kept."""
LISTING, NUMBER_BYTES = "jobs", 8
"""What cursors of pages of jobs are sealed for, and the length of the job's number in them."""
_INSERT_FILE = "INSERT INTO job_files VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, 0, NULL, '[]', NULL, NULL, 0, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Limits:
    """The most jobs that wait, and the most bytes of their files, in one data directory."""

    jobs: int = 1_000
    spool_bytes: int = 4 << 30


class StoredJobs:
    """The jobs of one catalogue; safe for use by several threads and processes.

    Each job belongs to the data directory whose spool has its files, its `home`.
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

    def create(self, job_id: str, wanted: Wanted, files: Sequence[SpooledFile], *, asker: Asker) -> None:
        """Store a job of the asker's that waits; its files are in the spool, safe on the disk. Raises JobsFullError."""
        now_ms = round(self._clock() * 1e3)
        told = orjson.dumps(wanted).decode()
        of = asker.made(shared=wanted.shared)

        def operation(transaction: Transaction) -> None:
            if self._room_bytes(transaction) < sum(each.size_bytes for each in files):
                raise JobsFullError("Too large files are waiting for the jobs before them")
            row = transaction.row("SELECT MAX(number) FROM jobs")
            number = 0 if row is None or row[0] is None else int(row[0]) + 1
            transaction.run(
                "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (job_id, number, of.owner, self._home, told, QUEUED, now_ms, None, of.audience),
            )
            for each in files:
                of_file = (job_id, each.number, each.name, each.media_type, each.size_bytes, QUEUED)
                transaction.run(_INSERT_FILE, (*of_file, *attachment_row(each.attachment)))

        self._database.commit(operation)

    def one(self, job_id: str, *, asker: Asker) -> Job:
        """Return a job. Raises JobNotFoundError when the asker sees none of that id."""
        with self._database.read() as transaction:
            return seen_job(transaction, job_id, asker)

    def owner_of(self, job_id: str) -> str:
        """Return to whom a job belongs. Raises JobNotFoundError when there is none of that id."""
        with self._database.read() as transaction:
            return _owner(transaction, job_id)

    def page(
        self, *, asker: Asker, status: str | None = None, limit: int, cursor: str | None = None
    ) -> tuple[list[Job], str | None]:
        """Return jobs that the asker sees, the newest first, and the cursor of the next page. Raises InvalidInputError
        for a wrong one."""
        seen, owners = asker.seen()
        conditions, parameters = [seen], [*owners]
        if status is not None:
            conditions.append("status = ?")
            parameters.append(status)
        with self._database.read() as transaction:
            before = [] if cursor is None else [int.from_bytes(opened(transaction, LISTING, cursor))]
            conditions += ["number < ?"] * len(before)
            rows = transaction.rows(
                f"{JOB} WHERE {' AND '.join(conditions)} ORDER BY number DESC LIMIT ?",
                (*parameters, *before, limit + 1),
            )
            jobs = [to_job(transaction, row) for row in rows[:limit]]
            if len(rows) <= limit:
                return jobs, None
            return jobs, sealed(transaction, LISTING, int(rows[limit - 1][5]).to_bytes(NUMBER_BYTES))

    def cancel(self, job_id: str, *, asker: Asker) -> tuple[Job, bool]:
        """Cancel a job that has not ended, and return it and whether it was still waiting. What it has stored stays.

        One that has ended stays as it is. Raises JobNotFoundError when the asker sees none of that id, and
        OwnedByAnotherError.
        """

        def operation(transaction: Transaction) -> tuple[Job, bool]:
            before = seen_job(transaction, job_id, asker)
            asker.check_owns(before.of, f"Job '{job_id}'")
            self._end(transaction, job_id, CANCELLED)
            # Also where the process that worked on them was killed and nobody else has begun.
            transaction.run(
                "UPDATE job_files SET status = ?, chunks_done = 0 WHERE job_id = ? AND status IN (?, ?)",
                (QUEUED, job_id, READING, EMBEDDING),
            )
            return seen_job(transaction, job_id, asker), before.status == QUEUED

        return self._database.freely.commit(operation)

    def take(self) -> Job | None:
        """Return the next job of this data directory, which runs from now on: the one that ran when its runner ended,
        else the oldest that waits. None when there is nothing to do."""

        def operation(transaction: Transaction) -> Job | None:
            row = transaction.row(
                f"{JOB} WHERE home = ? AND status IN (?, ?) "
                "ORDER BY CASE status WHEN ? THEN 0 ELSE 1 END, number LIMIT 1",
                (self._home, *WAITING, RUNNING),
            )
            if row is None:
                return None
            transaction.run("UPDATE jobs SET status = ? WHERE id = ?", (RUNNING, row[0]))
            return to_job(transaction, (row[0], RUNNING, *row[2:]))

        with self._database.read() as transaction:  # mostly there is nothing to do, which is seen without a write
            if (
                transaction.row("SELECT 1 FROM jobs WHERE home = ? AND status IN (?, ?)", (self._home, *WAITING))
                is None
            ):
                return None
        return self._database.freely.commit(operation)

    def is_running(self, job_id: str) -> bool:
        """Return False once the job is cancelled."""
        with self._database.read() as transaction:
            row = transaction.row("SELECT status FROM jobs WHERE id = ?", (job_id,))
        return row is not None and row[0] == RUNNING

    def has_file(self, job_id: str, number: int) -> bool:
        """Return False once the file is taken out of its job, or the job is forgotten."""
        with self._database.read() as transaction:
            return (
                transaction.row("SELECT 1 FROM job_files WHERE job_id = ? AND number = ?", (job_id, number)) is not None
            )

    def begin_file(self, job_id: str, number: int) -> int:
        """Count that the work on a file begins, and return how often it has."""

        def operation(transaction: Transaction) -> int:
            transaction.run("UPDATE job_files SET begun = begun + 1 WHERE job_id = ? AND number = ?", (job_id, number))
            row = transaction.row("SELECT begun FROM job_files WHERE job_id = ? AND number = ?", (job_id, number))
            return 0 if row is None else int(row[0])

        return self._database.freely.commit(operation)

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

        database = self._database.freely
        (database.commit if lasting else database.commit_quickly)(operation)

    def finish(self, job_id: str) -> None:
        """End a job whose files are through: `done` when at least one of them is stored."""

        def operation(transaction: Transaction) -> None:
            stored = transaction.row(
                "SELECT 1 FROM job_files WHERE job_id = ? AND status IN (?, ?) LIMIT 1", (job_id, DONE, UNCHANGED)
            )
            self._end(transaction, job_id, DONE if stored else FAILED)

        self._database.freely.commit(operation)

    def waiting(self, job_ids: Collection[str]) -> set[str]:
        """Return those of the jobs that have not ended."""
        with self._database.read() as transaction:
            rows = transaction.rows("SELECT id FROM jobs WHERE status IN (?, ?)", WAITING)
        return {row[0] for row in rows} & set(job_ids)

    def files_of(self, is_meant: Callable[[Wanted, JobFile], bool]) -> list[tuple[str, JobFile]]:
        """Return (id of the job, file) for all files that are meant. Those of jobs that have ended do not wait."""
        with self._database.read() as transaction:
            jobs = [to_job(transaction, row) for row in transaction.rows(JOB)]
        return [
            (
                job.id,
                each if job.status in WAITING or each.status not in UNFINISHED else replace(each, status=job.status),
            )
            for job in jobs
            for each in job.files
            if is_meant(job.wanted, each)
        ]

    def counts(self) -> JobCounts:
        """Return how many jobs of everybody there are."""
        with self._database.read() as transaction:
            counted = transaction.rows("SELECT status, count(*) FROM jobs GROUP BY status")
            done = transaction.row(
                "SELECT coalesce(sum(chunks_done), 0) FROM job_files "
                "WHERE job_id IN (SELECT id FROM jobs WHERE status = ?)",
                (RUNNING,),
            )
        return JobCounts({str(row[0]): int(row[1]) for row in counted}, 0 if done is None else int(done[0]))

    def waiting_files(self) -> list[tuple[Job, JobFile]]:
        """Return (job, file) for all files of jobs that have not ended."""
        with self._database.read() as transaction:
            rows = transaction.rows(f"{JOB} WHERE status IN (?, ?)", WAITING)
            jobs = [to_job(transaction, row) for row in rows]
        return [(job, each) for job in jobs for each in job.files]

    def erase_files(self, is_meant: Callable[[Wanted, JobFile], bool]) -> int:
        """Forget the files that are meant and do not wait, and jobs that have no others. Return the number of files."""

        def operation(transaction: Transaction) -> int:
            erased = 0
            for row in transaction.rows(JOB):
                job = to_job(transaction, row)
                doomed = [
                    each.number
                    for each in job.files
                    if is_meant(job.wanted, each) and not (job.status in WAITING and each.status in UNFINISHED)
                ]
                for number in doomed:
                    transaction.run("DELETE FROM job_files WHERE job_id = ? AND number = ?", (job.id, number))
                if doomed and len(doomed) == len(job.files):
                    forget(transaction, "id = ?", job.id)
                erased += len(doomed)
            return erased

        return self._database.freely.commit(operation)

    def of_owner(self, owner: str) -> list[str]:
        """Return the ids of an owner's jobs."""
        with self._database.read() as transaction:
            return [str(row[0]) for row in transaction.rows("SELECT id FROM jobs WHERE owner = ?", (owner,))]

    def erase(self, job_ids: Collection[str]) -> int:
        """Forget these jobs, and return how many of them there were. One that runs ends soon."""

        def operation(transaction: Transaction) -> int:
            erased = 0
            for each in job_ids:
                erased += transaction.row("SELECT 1 FROM jobs WHERE id = ?", (each,)) is not None
                forget(transaction, "id = ?", each)
            return erased

        return self._database.freely.commit(operation)

    def discard(self, job_id: str) -> None:
        """Forget a job that was never told to anybody."""
        self._database.freely.commit(lambda transaction: forget(transaction, "id = ?", job_id))

    def forget_ended(self, older_than_days: float) -> None:
        """Forget the jobs that ended so long ago."""
        ended_before_ms = round((self._clock() - older_than_days * 86_400) * 1e3)
        self._database.freely.commit_quickly(
            lambda transaction: forget(
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
            (*UNFINISHED, self._home, *WAITING),
        )
        return self._limits.spool_bytes - (0 if taken is None else int(taken[0]))


def _owner(transaction: Transaction, job_id: str) -> str:
    row = transaction.row("SELECT owner FROM jobs WHERE id = ?", (job_id,))
    if row is None:
        raise JobNotFoundError(job_id)
    return str(row[0])
