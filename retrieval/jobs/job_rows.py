"""Jobs and their files as rows of the catalogue's database."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

import orjson

from retrieval.clock import z_time
from retrieval.ingest.identity import document_id
from schemas.access.owners import AUDIENCE_COLUMN, Asker, Ownership
from schemas.contracts.jobs import (
    EMBEDDING,
    QUEUED,
    READING,
    Attachment,
    Job,
    JobFile,
    JobNotFoundError,
    SpooledFile,
    Wanted,
)
from schemas.shared_database import Transaction, of_fields

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
)
JOB = "SELECT id, status, created_at_ms, finished_at_ms, wanted, number, owner, audience FROM jobs"
_COLUMNS = (
    *("number", "name", "media_type", "size_bytes", "status", "document_id", "chunks", "chunks_done", "pages"),
    *("warnings", "code", "message", "attachment", "tries"),
)
FILE = f"SELECT {', '.join(_COLUMNS)} FROM job_files"
FILE_OF_JOB = f"SELECT j.id, j.number, j.status, j.created_at_ms, {', '.join(f'f.{name}' for name in _COLUMNS)}"
UNFINISHED = (QUEUED, READING, EMBEDDING)


def seen_job(transaction: Transaction, job_id: str, asker: Asker) -> Job:
    seen, parameters = asker.seen()
    row = transaction.row(f"{JOB} WHERE id = ? AND {seen}", (job_id, *parameters))
    if row is None:
        raise JobNotFoundError(job_id)
    return to_job(transaction, row)


def to_job(transaction: Transaction, row: tuple[Any, ...], number: int | None = None) -> Job:
    """Return the job of a row with all of its files, or only with that of this number."""
    job_id, status, created_at_ms, finished_at_ms, wanted, _, owner, audience = row
    told = orjson.loads(wanted)
    one, parameters = ("", (job_id,)) if number is None else (" AND number = ?", (job_id, number))
    files = transaction.rows(f"{FILE} WHERE job_id = ?{one} ORDER BY number", parameters)
    return Job(
        id=job_id,
        status=status,
        created_at=to_time(created_at_ms),
        finished_at=None if finished_at_ms is None else to_time(finished_at_ms),
        wanted=of_fields(Wanted, {**told, "tags": tuple(told.get("tags") or ())}),
        files=tuple(to_file(each) for each in files),
        of=Ownership(owner, audience),
    )


def to_file(row: tuple[Any, ...]) -> JobFile:
    attachment = None if row[12] is None else of_fields(Attachment, orjson.loads(row[12]))
    return JobFile(*(*row[:9], tuple(orjson.loads(row[9])), *row[10:12], attachment, row[13]))


def file_row(job_id: str, file: SpooledFile, collection: str, collection_id: str | None) -> dict[str, Any]:
    """Return the columns of a file that waits to go into a collection, whose id is None while it does not exist, or
    where it was attached. `place` tells which document it becomes: of two files of one document the earlier one goes
    first."""
    told = file.attachment
    source, where = (file.name, collection) if told is None else (told.source, told.collection_id)
    return {
        "job_id": job_id,
        "number": file.number,
        "name": file.name,
        "media_type": file.media_type,
        "size_bytes": file.size_bytes,
        "status": QUEUED,
        "chunks_done": 0,
        "warnings": "[]",
        "begun": 0,
        "collection_id": collection_id if told is None else told.collection_id,
        "file_id": None if told is None else told.file_id,
        "attachment": None if told is None else orjson.dumps(told).decode(),
        "place": hashlib.sha256(f"{where}\0{document_id(source)}".encode()).hexdigest()[:40],
    }


def forget(transaction: Transaction, condition: str, parameter: Any) -> None:
    transaction.run(f"DELETE FROM job_files WHERE job_id IN (SELECT id FROM jobs WHERE {condition})", (parameter,))
    transaction.run(f"DELETE FROM jobs WHERE {condition}", (parameter,))


def to_time(at_ms: int) -> str:
    return z_time(datetime.fromtimestamp(at_ms / 1e3, UTC))
