"""Jobs in the catalogue's database: what waits, what runs and what became of each file."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from retrieval.jobs.job_rows import (
    FILES,
    JOBS,
    STEPS,
    forget,
    insert_file,
    seen_job,
    take_out,
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
from schemas.shared_database import Database, Transaction
from schemas.storage.small_tables import EVERY_ROW, Condition, Part, having, seen_by

MAX_WARNINGS = MAX_NAMED + 1
"""The most warnings of a file that are kept: of records as many as are named, and how many more there are."""
DAY_SECONDS = 86_400
_UNFINISHED = f"status IN {UNFINISHED}"
_DUE = (
    f"(SELECT f.number FROM job_files f WHERE f.job_id = j.id AND f.{_UNFINISHED} AND f.due_at_ms <= ?{{others}} "
    "AND NOT EXISTS (SELECT 1 FROM job_files e JOIN jobs k ON k.id = e.job_id WHERE e.place = f.place "
    f"AND e.{_UNFINISHED} AND k.status IN (?, ?) AND k.home = j.home AND k.number < j.number) "
    "ORDER BY f.tries, f.begun, f.number LIMIT 1)"
)
"""The number of the file of a job that is due and waits for no earlier one of the same document: the first of those
that were tried least, and at which the service ended least."""
_NOT_STORED = f" AND NOT (f.status IN ('{DONE}', '{UNCHANGED}') AND f.chunks > 0)"


@dataclass(frozen=True, slots=True)
class Limits:
    """The most jobs that wait, and the most bytes of their files, in one data directory; half of both for one owner, so
    that nobody fills it alone. A service without keys has one owner only, who has all of it."""

    jobs: int = 1_000
    spool_bytes: int = 4 << 30


class StoredJobs(Part):
    """The jobs of one catalogue. Each belongs to the data directory whose spool has its files, its `home`."""

    def __init__(
        self, database: Database, home: str, limits: Limits = Limits(), clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(database, "jobs", STEPS, clock=clock)
        self._home = home
        self._limits = limits
        with database.read() as transaction:
            is_folded = FILES.count(transaction, Condition("attachment IS NOT NULL"))
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
        of = asker.made(shared=wanted.shared)

        def operation(transaction: Transaction) -> None:
            self._room(transaction, of.owner).take(sum(each.size_bytes for each in files))
            JOBS.insert(
                transaction,
                id=job_id,
                number=JOBS.next_number(transaction),
                owner=of.owner,
                audience=of.audience,
                home=self._home,
                wanted=wanted,
                status=QUEUED,
                created_at_ms=self._now_ms(),
            )
            for each in files:
                insert_file(transaction, job_id, each, wanted.collection, collection_id)

        self._database.commit(operation)

    def one(self, job_id: str, *, asker: Asker) -> Job:
        """Return a job. Raises JobNotFoundError when the asker sees none of that id."""
        with self._database.read() as transaction:
            return seen_job(transaction, job_id, asker)

    def file(self, job_id: str, number: int) -> JobFile | None:
        """Return a file as it is now, None when it was taken out of its job, or the job is forgotten."""
        return self._first(FILES, having(job_id=job_id, number=number))

    def is_unfinished(self, job_id: str, number: int) -> bool:
        """Return False once a file is through or taken out of its job, or the job is forgotten."""
        file = self.file(job_id, number)
        return file is not None and file.status in UNFINISHED

    def follow(self, job_id: str, collection_id: str) -> None:
        """Have the files of a job go into the collection of this id, unless they go into one already."""
        self._update(having(job_id=job_id, collection_id=None), collection_id=collection_id)

    def page(
        self, *, asker: Asker, status: str | None = None, limit: int, cursor: str | None = None
    ) -> tuple[list[Job], str | None]:
        """Return jobs that the asker sees, the newest first, and the cursor of the next page. Raises InvalidInputError
        for a wrong one."""
        wanted = seen_by(asker) & (EVERY_ROW if status is None else having(status=status))
        with self._database.read() as transaction:
            jobs, following = JOBS.page(transaction, wanted, limit=limit, cursor=cursor)
            return [with_files(transaction, each) for each in jobs], following

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
            FILES.update(transaction, having(job_id=job_id, status=(READING, EMBEDDING)), status=QUEUED, chunks_done=0)
            under_way = any(each.status in (READING, EMBEDDING) for each in before.files)
            return seen_job(transaction, job_id, asker), before.status in WAITING and not under_way

        return self._database.freely.commit(operation)

    def due(self, under_way: Collection[tuple[str, int]] = ()) -> list[DueFile]:
        """Return the next file of each job of this data directory, those tried least and then the oldest job first,
        without those that are `under_way`, (id of the job, number) each. Jobs that have nothing left to do end."""
        others = " AND NOT (f.job_id = ? AND f.number = ?)" * len(under_way)
        with self._database.read() as transaction:
            rows = transaction.rows(
                "SELECT d.id, d.owner, d.wanted, d.due, t.collection_id, t.begun, t.place, "
                f"EXISTS (SELECT 1 FROM job_files f WHERE f.job_id = d.id AND f.{_UNFINISHED}) "
                f"FROM (SELECT j.id, j.owner, j.wanted, j.number, {_DUE.format(others=others)} AS due "
                "FROM jobs j WHERE j.home = ? AND j.status IN (?, ?)) d "
                "LEFT JOIN job_files t ON t.job_id = d.id AND t.number = d.due ORDER BY t.tries, d.number",
                (self._now_ms(), *(each for file in under_way for each in file), *WAITING, self._home, *WAITING),
            )
        due = []
        for job_id, owner, wanted, number, collection_id, begun, document, is_unfinished in rows:
            if number is not None:
                collection = orjson.loads(wanted)["collection"]
                due.append(DueFile(job_id, int(number), owner, collection, collection_id, begun > 0, document))
            elif not is_unfinished:  # its process was killed before it said so
                self.finish(job_id)
        return due

    def begin(self, due: DueFile) -> tuple[Job, int] | None:
        """Begin the work on a file. Return its job, with this file alone, and how often the work on it has begun since
        it last ended in order; None when the file was taken out of the job, or the job has ended."""
        key = having(job_id=due.job_id, number=due.number)

        def operation(transaction: Transaction) -> tuple[Job, int] | None:
            job = JOBS.first(transaction, having(id=due.job_id, status=WAITING))
            begun = transaction.row(f"SELECT begun + 1 FROM job_files WHERE {key.sql}", key.parameters)
            if job is None or begun is None:
                return None
            JOBS.update(transaction, having(id=due.job_id), status=RUNNING)
            FILES.update(transaction, key, status=READING, begun=begun[0])
            return replace(job, status=RUNNING, files=tuple(FILES.rows(transaction, key))), int(begun[0])

        return self._database.freely.commit_quickly(operation)

    def goes_on(self, job_id: str, number: int) -> None:
        """Have the work on a file not count as begun: if it ends with the process, nothing is wrong with the file."""
        self._update(having(job_id=job_id, number=number), lasting=False, begun=0)

    def put_aside(self, job_id: str, file: JobFile, *, seconds: float = 0.0) -> None:
        """Have a file, as far as it is, wait for so long before it is worked on again. The work on it has ended in
        order, so that it does not count as begun."""
        key = having(job_id=job_id, number=file.number, status=UNFINISHED)
        told: dict[str, Any] = {"code": file.code, "message": file.message, "tries": file.tries}
        due_at_ms = self._now_ms() + round(seconds * 1e3)
        self._update(key, status=QUEUED, chunks=None, chunks_done=0, begun=0, due_at_ms=due_at_ms, **told)

    def tell(self, job_id: str, file: JobFile, *, lasting: bool = False) -> None:
        """Store how far a file is, with `lasting` so that it survives a loss of power."""
        names = "status", "document_id", "chunks", "chunks_done", "pages", "code", "message"
        told = {each: getattr(file, each) for each in names} | {"warnings": file.warnings[:MAX_WARNINGS]}
        self._update(having(job_id=job_id, number=file.number), lasting=lasting, **told)

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
        return {each.id for each in self._rows(JOBS, having(id=tuple(job_ids), status=WAITING))}

    def files(self) -> list[tuple[Job, JobFile]]:
        """Return (job, file) for all files of all jobs."""
        with self._database.read() as transaction:
            jobs = [with_files(transaction, each) for each in JOBS.rows(transaction)]
        return [(job, each) for job in jobs for each in job.files]

    def counts(self) -> JobCounts:
        """Return how many jobs of everybody there are."""
        with self._database.read() as transaction:
            counted = transaction.rows("SELECT status, count(*) FROM jobs GROUP BY status")
            [[done]] = transaction.rows(
                "SELECT coalesce(sum(chunks_done), 0) FROM job_files "
                "WHERE job_id IN (SELECT id FROM jobs WHERE status = ?)",
                (RUNNING,),
            )
        return JobCounts({str(row[0]): int(row[1]) for row in counted}, int(done))

    def failed_texts(self, *, tries: int = 0, within_seconds: float = DAY_SECONDS) -> list[str]:
        """Return the collection of each file with texts that cannot be embedded, tried so often or ended so lately."""
        with self._database.read() as transaction:
            rows = transaction.rows(
                "SELECT j.wanted FROM job_files f JOIN jobs j ON j.id = f.job_id WHERE f.code = ? AND f.tries >= ? "
                "AND (j.finished_at_ms IS NULL OR j.finished_at_ms > ?)",
                (TEXT_FAILED, tries, self._now_ms() - round(within_seconds * 1e3)),
            )
        return [orjson.loads(wanted)["collection"] for (wanted,) in rows]

    def last(self, collection_id: str, file_id: str | None = None, *, asker: Asker) -> list[Job]:
        """Return the last job of a kept file that went into a collection, with this file alone, and without a `file_id`
        that of each file which the collection has not stored, in the order in which they were attached; as far as the
        asker sees the jobs. What is stored is told by the collection itself, whatever became of its documents since."""
        seen, owners = asker.seen()
        of_file, named = ("", ()) if file_id is None else (" AND g.file_id = ?", (file_id,))
        columns = [*(f"j.{name}" for name in JOBS.columns), *(f"f.{name}" for name in FILES.columns)]
        with self._database.read() as transaction:
            # The last job of each file is looked for once, however often the file was attached.
            rows = transaction.rows(
                f"SELECT {', '.join(columns)} FROM job_files f JOIN jobs j ON j.id = f.job_id "
                "JOIN (SELECT g.file_id AS file_id, MAX(k.number) AS latest FROM job_files g "
                f"JOIN jobs k ON k.id = g.job_id WHERE g.collection_id = ?{of_file} GROUP BY g.file_id) l "
                "ON l.file_id = f.file_id AND l.latest = j.number WHERE f.collection_id = ? "
                f"AND {seen}{_NOT_STORED if file_id is None else ''} ORDER BY j.number, f.number",
                (collection_id, *named, collection_id, *owners),
            )
        width = len(JOBS.columns)
        return [replace(JOBS.made(row[:width]), files=(FILES.made(row[width:]),)) for row in rows]

    def take_back(self, file_id: str, collection_id: str | None = None, *, asker: Asker) -> list[tuple[str, int]]:
        """Take a kept file out of the jobs that the asker sees, those for one collection or all, also of one under way,
        which then leaves nothing of it behind. Return (the id of the job, the number of the file in it) for each."""
        seen = seen_by(asker)
        files = having(file_id=file_id) & Condition(
            f"job_id IN (SELECT id FROM jobs WHERE {seen.sql})", seen.parameters
        )
        if collection_id is not None:
            files &= having(collection_id=collection_id)
        return self._database.freely.commit(lambda transaction: take_out(transaction, files))

    def forget_collection(self, collection_id: str) -> None:
        """Take all kept files out of their jobs that go into a collection which is gone."""
        files = having(collection_id=collection_id) & Condition("file_id IS NOT NULL")
        self._database.freely.commit(lambda transaction: take_out(transaction, files))

    def erase_files(self, is_meant: Callable[[Wanted, JobFile], bool]) -> int:
        """Forget the files that are meant and do not wait, and jobs that have no others. Return the number of files."""

        def operation(transaction: Transaction) -> int:
            erased = 0
            for job in [with_files(transaction, each) for each in JOBS.rows(transaction)]:
                doomed = [each.number for each in job.files if is_meant(job.wanted, each) and not job.waits_for(each)]
                erased += len(take_out(transaction, having(job_id=job.id, number=tuple(doomed))))
            return erased

        return self._database.freely.commit(operation)

    def of_owner(self, owner: str) -> list[str]:
        """Return the ids of an owner's jobs."""
        return [each.id for each in self._rows(JOBS, having(owner=owner))]

    def erase(self, job_ids: Collection[str]) -> int:
        """Forget these jobs, and return how many of them there were. One that runs ends soon."""
        return self._database.freely.commit(
            lambda transaction: sum(forget(transaction, having(id=each)) for each in job_ids)
        )

    def forget_ended(self, older_than_days: float) -> None:
        """Forget the jobs that ended so long ago."""
        before_ms = self._now_ms() - round(older_than_days * DAY_SECONDS * 1e3)
        ended = Condition("finished_at_ms IS NOT NULL AND finished_at_ms < ?", (before_ms,))
        self._database.freely.commit_quickly(lambda transaction: forget(transaction, ended))

    def _update(self, files: Condition, *, lasting: bool = True, **values: Any) -> None:
        database = self._database.freely
        (database.commit if lasting else database.commit_quickly)(
            lambda transaction: FILES.update(transaction, files, **values)
        )

    def _end(self, transaction: Transaction, job_id: str, status: str) -> None:
        JOBS.update(transaction, having(id=job_id, status=WAITING), status=status, finished_at_ms=self._now_ms())

    def _room(self, transaction: Transaction, owner: str) -> Room:
        limits, share = self._limits, 1 if owner == OPEN else 2
        own_most = max(1, limits.jobs // share)
        jobs, size = self._waiting(transaction, EVERY_ROW)
        own_jobs, own_size = self._waiting(transaction, having(owner=owner))
        if jobs >= limits.jobs:
            raise JobsFullError("Too many jobs are waiting")
        if own_jobs >= own_most:
            sentence = f"Of one owner's jobs at most {own_most} wait: send this when some of them have ended"
            raise OwnJobsFullError(sentence, limit="jobs_waiting")
        room, own = limits.spool_bytes - size, limits.spool_bytes // share
        # One upload is never too large for its owner alone.
        return Room(room, own - own_size if own_jobs else room, own)

    def _waiting(self, transaction: Transaction, of: Condition) -> tuple[int, int]:
        """Return (how many jobs wait, the bytes of their files that do)."""
        jobs = having(home=self._home, status=WAITING) & of
        [[size_bytes]] = transaction.rows(
            f"SELECT COALESCE(SUM(size_bytes), 0) FROM job_files WHERE {_UNFINISHED} "
            f"AND job_id IN (SELECT id FROM jobs WHERE {jobs.sql})",
            jobs.parameters,
        )
        return JOBS.count(transaction, jobs), int(size_bytes)
