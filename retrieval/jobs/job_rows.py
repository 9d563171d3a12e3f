"""Jobs and their files as rows of the catalogue's database."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import orjson

from retrieval.clock import z_time
from retrieval.ingest.identity import document_id
from schemas.access.owners import AUDIENCE_COLUMN, Asker, Ownership
from schemas.contracts.jobs import QUEUED, Job, JobFile, JobNotFoundError, SpooledFile, Wanted
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
    (
        "ALTER TABLE job_files ADD COLUMN source {text}",
        "ALTER TABLE job_files ADD COLUMN metadata {text} NOT NULL DEFAULT '{{}}'",
        "ALTER TABLE job_files ADD COLUMN max_tokens INTEGER",
        "ALTER TABLE job_files ADD COLUMN overlap_tokens INTEGER NOT NULL DEFAULT 0",
        "UPDATE job_files SET source = name WHERE attachment IS NULL",
    ),
)
JOB_COLUMNS = ("id", "number", "status", "created_at_ms", "finished_at_ms", "wanted", "owner", "audience")
FILE_COLUMNS = tuple(each.name for each in fields(JobFile))
Row = dict[str, Any]
"""The columns of a row by their names."""


def rows_of(
    transaction: Transaction, table: str, columns: Sequence[str], condition: str, parameters: Sequence[Any] = ()
) -> list[Row]:
    """Return these columns of the rows of a table; `condition` is the rest of the statement, from WHERE on."""
    found = transaction.rows(f"SELECT {', '.join(columns)} FROM {table} {condition}", parameters)
    return [dict(zip(columns, row, strict=True)) for row in found]


def insert(transaction: Transaction, table: str, row: Row) -> None:
    places = ", ".join("?" * len(row))
    transaction.run(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", tuple(row.values()))


def unfold_attachments(transaction: Transaction) -> None:
    """Give what earlier releases said of a kept file in one value columns of its own."""
    for row in rows_of(transaction, "job_files", ("job_id", "number", "attachment"), "WHERE attachment IS NOT NULL"):
        told = orjson.loads(row["attachment"])
        transaction.run(
            "UPDATE job_files SET attachment = NULL, source = ?, metadata = ?, max_tokens = ?, overlap_tokens = ? "
            "WHERE job_id = ? AND number = ?",
            (
                *(told["source"], orjson.dumps(told.get("metadata") or {}).decode(), told.get("max_tokens")),
                *(told.get("overlap_tokens") or 0, row["job_id"], row["number"]),
            ),
        )


def seen_job(transaction: Transaction, job_id: str, asker: Asker) -> Job:
    seen, parameters = asker.seen()
    found = rows_of(transaction, "jobs", JOB_COLUMNS, f"WHERE id = ? AND {seen}", (job_id, *parameters))
    if not found:
        raise JobNotFoundError(job_id)
    return with_files(transaction, found[0])


def with_files(transaction: Transaction, job: Row, number: int | None = None) -> Job:
    """Return the job of a row with all of its files, or only with that of this number."""
    one, parameters = ("", ()) if number is None else (" AND number = ?", (number,))
    condition = f"WHERE job_id = ?{one} ORDER BY number"
    return to_job(job, rows_of(transaction, "job_files", FILE_COLUMNS, condition, (job["id"], *parameters)))


def to_job(job: Row, files: Iterable[Row]) -> Job:
    told = orjson.loads(job["wanted"])
    finished_at_ms = job["finished_at_ms"]
    return Job(
        id=job["id"],
        number=int(job["number"]),
        status=job["status"],
        created_at=to_time(job["created_at_ms"]),
        finished_at=None if finished_at_ms is None else to_time(finished_at_ms),
        wanted=of_fields(Wanted, {**told, "tags": tuple(told.get("tags") or ())}),
        files=tuple(map(to_file, files)),
        of=Ownership(job["owner"], job["audience"]),
    )


def to_file(row: Row) -> JobFile:
    told = {"warnings": tuple(orjson.loads(row["warnings"])), "metadata": orjson.loads(row["metadata"])}
    return JobFile(**row | told)


def file_row(job_id: str, file: SpooledFile, collection: str, collection_id: str | None) -> Row:
    """Return the columns of a file that waits to go into a collection, whose id is None while it does not exist.
    `place` tells which document it becomes: of two files of one document the earlier one goes first."""
    source = file.source or file.name
    where = collection if file.file_id is None else collection_id
    max_tokens, overlap_tokens = file.windows or (None, 0)
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
        "collection_id": collection_id,
        "file_id": file.file_id,
        "source": source,
        "metadata": orjson.dumps(file.metadata).decode(),
        "max_tokens": max_tokens,
        "overlap_tokens": overlap_tokens,
        "place": hashlib.sha256(f"{where}\0{document_id(source)}".encode()).hexdigest()[:40],
    }


def forget(transaction: Transaction, condition: str, parameter: Any) -> None:
    transaction.run(f"DELETE FROM job_files WHERE job_id IN (SELECT id FROM jobs WHERE {condition})", (parameter,))
    transaction.run(f"DELETE FROM jobs WHERE {condition}", (parameter,))


def to_time(at_ms: int) -> str:
    return z_time(datetime.fromtimestamp(at_ms / 1e3, UTC))
