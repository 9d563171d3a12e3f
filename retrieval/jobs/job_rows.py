"""Jobs and their files as rows of the catalogue's database."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from functools import wraps
from typing import Any

from retrieval.clock import z_time_of_ms
from retrieval.ingest.identity import document_id
from schemas.access.owners import AUDIENCE_COLUMN, Asker, Ownership
from schemas.contracts.jobs import QUEUED, Job, JobFile, JobNotFoundError, SpooledFile, Wanted
from schemas.shared_database import Transaction, of_fields
from schemas.storage.small_tables import Condition, Table, having, seen_by

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
    (f"ALTER TABLE jobs ADD COLUMN {AUDIENCE_COLUMN}",),
    (
        "ALTER TABLE job_files ADD COLUMN collection_id VARCHAR(40)",
        "ALTER TABLE job_files ADD COLUMN file_id VARCHAR(40)",
        "ALTER TABLE job_files ADD COLUMN attachment {text}",
        "CREATE INDEX job_files_attached ON job_files (collection_id, file_id)",
    ),
    (
        "ALTER TABLE job_files ADD COLUMN tries INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE job_files ADD COLUMN due_at_ms BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE job_files ADD COLUMN place VARCHAR(40)",
        "CREATE INDEX job_files_of_place ON job_files (place)",
        "CREATE INDEX job_files_by_code ON job_files (code)",
    ),
    ("CREATE INDEX job_files_in_turn ON job_files (job_id, tries, begun, number)",),
    (
        "ALTER TABLE job_files ADD COLUMN source {text}",
        "ALTER TABLE job_files ADD COLUMN metadata {text} NOT NULL DEFAULT '{{}}'",
        "ALTER TABLE job_files ADD COLUMN max_tokens INTEGER",
        "ALTER TABLE job_files ADD COLUMN overlap_tokens INTEGER NOT NULL DEFAULT 0",
        "UPDATE job_files SET source = name WHERE attachment IS NULL",
    ),
)


def _job(
    id: str,
    number: int,
    status: str,
    created_at_ms: int,
    finished_at_ms: int | None,
    wanted: dict[str, Any],
    owner: str,
    audience: str,
) -> Job:
    return Job(
        id=id,
        number=number,
        status=status,
        created_at=z_time_of_ms(created_at_ms),
        finished_at=None if finished_at_ms is None else z_time_of_ms(finished_at_ms),
        wanted=of_fields(Wanted, {**wanted, "tags": tuple(wanted.get("tags") or ())}),
        files=(),
        of=Ownership(owner, audience),
    )


@wraps(JobFile)
def _file(**columns: Any) -> JobFile:
    return JobFile(**columns | {"warnings": tuple(columns["warnings"])})


JOBS = Table("jobs", _job, json=("wanted",))
FILES = Table("job_files", _file, order="number", json=("warnings", "metadata"))
_FOLDED = Table("job_files", lambda job_id, number, attachment: (job_id, number, attachment), json=("attachment",))


def unfold_attachments(transaction: Transaction) -> None:
    """Give what earlier builds said of a kept file in one value columns of its own."""
    for job_id, number, told in _FOLDED.rows(transaction, Condition("attachment IS NOT NULL")):
        FILES.update(
            *(transaction, having(job_id=job_id, number=number)),
            attachment=None,
            source=told["source"],
            metadata=told.get("metadata") or {},
            max_tokens=told.get("max_tokens"),
            overlap_tokens=told.get("overlap_tokens") or 0,
        )


def seen_job(transaction: Transaction, job_id: str, asker: Asker) -> Job:
    job = JOBS.first(transaction, having(id=job_id) & seen_by(asker))
    if job is None:
        raise JobNotFoundError(job_id)
    return with_files(transaction, job)


def with_files(transaction: Transaction, job: Job) -> Job:
    return replace(job, files=tuple(FILES.rows(transaction, having(job_id=job.id))))


def insert_file(
    transaction: Transaction, job_id: str, file: SpooledFile, collection: str, collection_id: str | None
) -> None:
    """Store a file that waits to go into a collection, whose id is None while it does not exist. `place` tells which
    document it becomes: of two files of one document the earlier one goes first."""
    source = file.source or file.name
    where = collection if file.file_id is None else collection_id
    max_tokens, overlap_tokens = file.windows or (None, 0)
    waiting = JobFile(
        *(file.number, file.name, file.media_type, file.size_bytes, QUEUED, source),
        file_id=file.file_id,
        collection_id=collection_id,
        metadata=file.metadata,
        max_tokens=max_tokens,
        overlap_tokens=overlap_tokens,
    )
    place = hashlib.sha256(f"{where}\0{document_id(source)}".encode()).hexdigest()[:40]
    FILES.insert(transaction, job_id=job_id, **asdict(waiting), begun=0, place=place)


def forget(transaction: Transaction, jobs: Condition) -> int:
    """Forget jobs with their files, and return how many of them there were."""
    FILES.delete(transaction, Condition(f"job_id IN (SELECT id FROM jobs WHERE {jobs.sql})", jobs.parameters))
    return JOBS.remove(transaction, jobs)


def take_out(transaction: Transaction, files: Condition) -> list[tuple[str, int]]:
    """Take files out of their jobs, and forget the jobs that have no others. Return (the id of the job, the number of
    the file in it) for each."""
    taken = transaction.rows(f"SELECT job_id, number FROM job_files WHERE {files.sql}", files.parameters)
    FILES.delete(transaction, files)
    for job_id in dict.fromkeys(row[0] for row in taken):
        if not FILES.count(transaction, having(job_id=job_id)):
            forget(transaction, having(id=job_id))
    return [(str(job_id), int(number)) for job_id, number in taken]
