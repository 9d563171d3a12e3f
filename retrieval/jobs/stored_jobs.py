"""Jobs in the catalogue's database: what waits, what runs and what became of each file."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import orjson

from retrieval.jobs.job_rows import (
    JOB_COLUMNS,
    STEPS,
    file_row,
    forget,
    insert,
    rows_of,
    seen_job,
    unfold_attachments,
    with_files,
)
from retrieval.jobs.record_files import MAX_NAMED
from schemas.access.owners import OPEN, Asker
from schemas.contracts.jobs import (
    CANCELLED,
    DONE,
    EMBEDDING,
    FAILED,
    QUEUED,
    READING,
    RUNNING,
    TEXT_FAILED,
    UNCHANGED,
    UNFINISHED,
    WAITING,
    DueFile,
    Job,
    JobCounts,
    JobFile,
    JobsFullError,
    OwnJobsFullError,
    Room,
    SpooledFile,
    Wanted,
)
from schemas.sealed_cursors import opened, sealed
from schemas.shared_database import Database, Transaction

MAX_WARNINGS = MAX_NAMED + 1
"""The most warnings of a file that are kept: of records as many as are named, and how many more there are."""
DAY_SECONDS = 86_400
LISTING, NUMBER_BYTES = "jobs", 8
"""What cursors of pages of jobs are sealed for, and the length of the job's number in them."""
_UNFINISHED = f"status IN {UNFINISHED}"
_DUE = (
    f"(SELECT f.number FROM job_files f WHERE f.job_id = j.id AND f.{_UNFINISHED} AND f.due_at_ms <= ?{{others}} "
    "AND NOT EXISTS (SELECT 1 FROM job_files e JOIN jobs k ON k.id = e.job_id WHERE e.place = f.place "
    f"AND e.{_UNFINISHED} AND k.status IN (?, ?) AND k.home = j.home AND k.number < j.number) "
    "ORDER BY f.tries, f.begun, f.number LIMIT 1)"
)
"""The number of the file of a job that is due and waits for no earlier one of the same document: the first of those
that were tried least, and at which the service ended least."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most jobs that wait, and the most bytes of their files, in one data directory; half of both for one owner, so
    that nobody fills it alone. A service without keys has one owner only, who has all of it."""

    jobs: int = 1_000
    spool_bytes: int = 4 << 30

    def jobs_of(self, owner: str) -> int:
        return self.jobs if owner == OPEN else max(1, self.jobs // 2)

    def spool_bytes_of(self, owner: str) -> int:
        return self.spool_bytes if owner == OPEN else self.spool_bytes // 2


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
        with database.read() as transaction:
            is_folded = transaction.row("SELECT 1 FROM job_files WHERE attachment IS NOT NULL LIMIT 1") is not None
        if is_folded:
            database.freely.commit(unfold_attachments)

    def room(self, *, asker: Asker) -> Room:
        """Return how many bytes of files may still wait. Raises JobsFullError and OwnJobsFullError when no job may."""
        with self._database.read() as transaction:
            return self._room(transaction, asker.owner)

    def create(
        self,
        job_id: str,
        wanted: Wanted,
        files: Sequence[SpooledFile],
        *,
        asker: Asker,
        collection_id: str | None = None,
    ) -> None:
        """Store a job of the asker's that waits; its files are in the spool, safe on the disk, and go into the
        collection of this id, if there is one yet. Raises JobsFullError and OwnJobsFullError."""
        now_ms = round(self._clock() * 1e3)
        told = orjson.dumps(wanted).decode()
        of = asker.made(shared=wanted.shared)

        def operation(transaction: Transaction) -> None:
            self._room(transaction, of.owner).take(sum(each.size_bytes for each in files))
            row = transaction.row("SELECT MAX(number) FROM jobs")
            number = 0 if row is None or row[0] is None else int(row[0]) + 1
            job = {"id": job_id, "number": number, "owner": of.owner, "audience": of.audience, "home": self._home}
            insert(transaction, "jobs", job | {"wanted": told, "status": QUEUED, "created_at_ms": now_ms})
            for each in files:
                insert(transaction, "job_files", file_row(job_id, each, wanted.collection, collection_id))

        self._database.commit(operation)

    def one(self, job_id: str, *, asker: Asker) -> Job:
        """Return a job. Raises JobNotFoundError when the asker sees none of that id."""
        with self._database.read() as transaction:
            return seen_job(transaction, job_id, asker)

    def collection_id(self, job_id: str, number: int) -> str | None:
        """Return the id of the collection that a file goes into, None while that does not exist."""
        with self._database.read() as transaction:
            sql = "SELECT collection_id FROM job_files WHERE job_id = ? AND number = ?"
            row = transaction.row(sql, (job_id, number))
        return None if row is None else row[0]

    def follow(self, job_id: str, collection_id: str) -> None:
        """Have the files of a job go into the collection of this id, unless they go into one already."""
        sql = "UPDATE job_files SET collection_id = ? WHERE job_id = ? AND collection_id IS NULL"
        self._database.freely.commit(lambda transaction: transaction.run(sql, (collection_id, job_id)))

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
            rows = rows_of(
                *(transaction, "jobs", JOB_COLUMNS, f"WHERE {' AND '.join(conditions)} ORDER BY number DESC LIMIT ?"),
                (*parameters, *before, limit + 1),
            )
            jobs = [with_files(transaction, row) for row in rows[:limit]]
            if len(rows) <= limit:
                return jobs, None
            return jobs, sealed(transaction, LISTING, jobs[-1].number.to_bytes(NUMBER_BYTES))

    def cancel(self, job_id: str, *, asker: Asker) -> tuple[Job, bool]:
        """Cancel a job that has not ended, and return it and whether nothing of it was under way. What it has stored
        stays.

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
            under_way = any(each.status in (READING, EMBEDDING) for each in before.files)
            return seen_job(transaction, job_id, asker), before.status in WAITING and not under_way

        return self._database.freely.commit(operation)

    def due(self, under_way: Collection[tuple[str, int]] = ()) -> list[DueFile]:
        """Return the next file of each job of this data directory, those tried least and then the oldest job first,
        without those that are `under_way`, (id of the job, number) each. Jobs that have nothing left to do end."""
        others = " AND NOT (f.job_id = ? AND f.number = ?)" * len(under_way)
        now_ms = round(self._clock() * 1e3)
        with self._database.read() as transaction:
            rows = transaction.rows(
                "SELECT d.id, d.owner, d.wanted, d.due, t.collection_id, t.begun, "
                f"EXISTS (SELECT 1 FROM job_files f WHERE f.job_id = d.id AND f.{_UNFINISHED}) "
                f"FROM (SELECT j.id, j.owner, j.wanted, j.number, {_DUE.format(others=others)} AS due "
                "FROM jobs j WHERE j.home = ? AND j.status IN (?, ?)) d "
                "LEFT JOIN job_files t ON t.job_id = d.id AND t.number = d.due ORDER BY t.tries, d.number",
                (now_ms, *(each for file in under_way for each in file), *WAITING, self._home, *WAITING),
            )
        due = []
        for job_id, owner, wanted, number, collection_id, begun, is_unfinished in rows:
            if number is not None:
                collection = orjson.loads(wanted)["collection"]
                due.append(DueFile(job_id, int(number), owner, collection, collection_id, begun > 0))
            elif not is_unfinished:  # its process was killed before it said so
                self.finish(job_id)
        return due

    def begin(self, due: DueFile) -> tuple[Job, int] | None:
        """Begin the work on a file. Return its job, with this file alone, and how often the work on it has begun since
        it last ended in order; None when the file was taken out of the job, or the job has ended."""
        key = (due.job_id, due.number)

        def operation(transaction: Transaction) -> tuple[Job, int] | None:
            jobs = rows_of(
                transaction, "jobs", JOB_COLUMNS, "WHERE id = ? AND status IN (?, ?)", (due.job_id, *WAITING)
            )
            begun = transaction.row("SELECT begun FROM job_files WHERE job_id = ? AND number = ?", key)
            if not jobs or begun is None:
                return None
            transaction.run("UPDATE jobs SET status = ? WHERE id = ?", (RUNNING, due.job_id))
            transaction.run(
                "UPDATE job_files SET status = ?, begun = begun + 1 WHERE job_id = ? AND number = ?", (READING, *key)
            )
            return with_files(transaction, jobs[0] | {"status": RUNNING}, due.number), int(begun[0]) + 1

        return self._database.freely.commit_quickly(operation)

    def goes_on(self, job_id: str, number: int) -> None:
        """Have the work on a file not count as begun: if it ends with the process, nothing is wrong with the file."""
        sql = "UPDATE job_files SET begun = 0 WHERE job_id = ? AND number = ?"
        self._database.freely.commit_quickly(lambda transaction: transaction.run(sql, (job_id, number)))

    def put_aside(self, job_id: str, file: JobFile, *, seconds: float = 0.0) -> None:
        """Have a file, as far as it is, wait for so long before it is worked on again. The work on it has ended in
        order, so that it does not count as begun."""
        due_at_ms = round((self._clock() + seconds) * 1e3)

        def operation(transaction: Transaction) -> None:
            transaction.run(
                "UPDATE job_files SET status = ?, chunks = NULL, chunks_done = 0, code = ?, message = ?, begun = 0, "
                f"tries = ?, due_at_ms = ? WHERE job_id = ? AND number = ? AND {_UNFINISHED}",
                (QUEUED, file.code, file.message, file.tries, due_at_ms, job_id, file.number),
            )

        self._database.freely.commit(operation)

    def is_unfinished(self, job_id: str, number: int) -> bool:
        """Return False once the file is through or taken out of its job, or the job is forgotten."""
        with self._database.read() as transaction:
            sql = f"SELECT 1 FROM job_files WHERE job_id = ? AND number = ? AND {_UNFINISHED}"
            return transaction.row(sql, (job_id, number)) is not None

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
        """End a job whose files are all through: `done` when at least one of them is stored."""
        with self._database.read() as transaction:
            rows = transaction.rows("SELECT DISTINCT status FROM job_files WHERE job_id = ?", (job_id,))
        statuses = {row[0] for row in rows}
        if not statuses & set(UNFINISHED):
            outcome = DONE if statuses & {DONE, UNCHANGED} else FAILED
            self._database.freely.commit(lambda transaction: self._end(transaction, job_id, outcome))

    def waiting(self, job_ids: Collection[str]) -> set[str]:
        """Return those of the jobs that have not ended."""
        with self._database.read() as transaction:
            sql = f"SELECT id FROM jobs WHERE id IN (NULL{', ?' * len(job_ids)}) AND status IN (?, ?)"
            return {row[0] for row in transaction.rows(sql, (*job_ids, *WAITING))}

    def files(self) -> list[tuple[Job, JobFile]]:
        """Return (job, file) for all files of all jobs."""
        with self._database.read() as transaction:
            jobs = [with_files(transaction, each) for each in rows_of(transaction, "jobs", JOB_COLUMNS, "")]
        return [(job, each) for job in jobs for each in job.files]

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

    def failed_texts(self, *, tries: int = 0, within_seconds: float = DAY_SECONDS) -> list[str]:
        """Return the collection of each file with texts that cannot be embedded, tried so often or ended so lately."""
        with self._database.read() as transaction:
            rows = transaction.rows(
                "SELECT j.wanted FROM job_files f JOIN jobs j ON j.id = f.job_id WHERE f.code = ? AND f.tries >= ? "
                "AND (j.finished_at_ms IS NULL OR j.finished_at_ms > ?)",
                (TEXT_FAILED, tries, round((self._clock() - within_seconds) * 1e3)),
            )
        return [orjson.loads(wanted)["collection"] for (wanted,) in rows]

    def erase_files(self, is_meant: Callable[[Wanted, JobFile], bool]) -> int:
        """Forget the files that are meant and do not wait, and jobs that have no others. Return the number of files."""

        def operation(transaction: Transaction) -> int:
            erased = 0
            for row in rows_of(transaction, "jobs", JOB_COLUMNS, ""):
                job = with_files(transaction, row)
                doomed = [each.number for each in job.files if is_meant(job.wanted, each) and not job.waits_for(each)]
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

    def forget_ended(self, older_than_days: float) -> None:
        """Forget the jobs that ended so long ago."""
        ended_before_ms = round((self._clock() - older_than_days * DAY_SECONDS) * 1e3)
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

    def _room(self, transaction: Transaction, owner: str) -> Room:
        limits, own_most = self._limits, self._limits.jobs_of(owner)
        jobs, size = self._waiting(transaction, "")
        own_jobs, own_size = self._waiting(transaction, " AND owner = ?", owner)
        if jobs >= limits.jobs:
            raise JobsFullError("Too many jobs are waiting")
        if own_jobs >= own_most:
            sentence = f"Of one owner's jobs at most {own_most} wait: send this when some of them have ended"
            raise OwnJobsFullError(sentence, limit="jobs_waiting")
        room, own = limits.spool_bytes - size, limits.spool_bytes_of(owner)
        # One upload is never too large for its owner alone.
        return Room(room, own - own_size if own_jobs else room, own)

    def _waiting(self, transaction: Transaction, condition: str, *parameters: str) -> tuple[int, int]:
        """Return (how many jobs wait, the bytes of their files that do)."""
        jobs = f"FROM jobs WHERE home = ? AND status IN (?, ?){condition}"
        of_jobs = (self._home, *WAITING, *parameters)
        row = transaction.row(
            f"SELECT (SELECT COUNT(*) {jobs}), (SELECT COALESCE(SUM(size_bytes), 0) FROM job_files "
            f"WHERE {_UNFINISHED} AND job_id IN (SELECT id {jobs}))",
            (*of_jobs, *of_jobs),
        )
        assert row is not None
        return int(row[0]), int(row[1])
