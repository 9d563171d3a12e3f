"""Kept files on their way into collections: which are waiting, failed or cancelled, and how they are taken back.

What is stored is not told here, but by the collection itself, whatever became of its documents since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrieval.jobs.job_rows import FILE_COLUMNS, JOB_COLUMNS, forget, to_job
from schemas.access.owners import Asker
from schemas.contracts.jobs import DONE, UNCHANGED, Job
from schemas.shared_database import Database, Transaction

_STORED = f"(f.status IN ('{DONE}', '{UNCHANGED}') AND f.chunks > 0)"


class AttachedFiles:
    """The attached files among those of all jobs; safe for use by several threads and processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def unstored(self, collection_id: str, *, asker: Asker) -> list[Job]:
        """Return the last job of each file of a collection that has not stored it, with this file alone, in the order
        in which they were attached, as far as the asker sees the jobs."""
        return self._last(collection_id, None, f"NOT {_STORED}", asker)

    def last(self, collection_id: str, file_id: str, *, asker: Asker) -> Job | None:
        """Return the last job of a file, with this file alone, None when it is forgotten or the asker does not see
        it."""
        found = self._last(collection_id, file_id, "1 = 1", asker)
        return found[0] if found else None

    def take_back(self, file_id: str, collection_id: str | None = None, *, asker: Asker) -> list[tuple[str, int]]:
        """Take a file out of the jobs that the asker sees, those for one collection or all, also of one under way,
        which then leaves nothing of it behind. Return (the id of the job, the number of the file in it) for each."""
        seen, owners = asker.seen()
        condition, parameters = ("", ()) if collection_id is None else (" AND f.collection_id = ?", (collection_id,))

        def operation(transaction: Transaction) -> list[tuple[str, int]]:
            rows = transaction.rows(
                "SELECT f.job_id, f.number FROM job_files f JOIN jobs j ON j.id = f.job_id "
                f"WHERE f.file_id = ?{condition} AND {seen}",
                (file_id, *parameters, *owners),
            )
            _take_out(transaction, rows)
            return [(str(job_id), int(number)) for job_id, number in rows]

        return self._database.freely.commit(operation)

    def forget_collection(self, collection_id: str) -> None:
        """Take all attached files out of their jobs that go into a collection which is gone."""

        def operation(transaction: Transaction) -> None:
            _take_out(
                transaction,
                transaction.rows(
                    "SELECT job_id, number FROM job_files WHERE collection_id = ? AND file_id IS NOT NULL",
                    (collection_id,),
                ),
            )

        self._database.freely.commit(operation)

    def _last(self, collection_id: str, file_id: str | None, condition: str, asker: Asker) -> list[Job]:
        seen, owners = asker.seen()
        of_file, named = ("", ()) if file_id is None else (" AND g.file_id = ?", (file_id,))
        columns = [*(f"j.{name}" for name in JOB_COLUMNS), *(f"f.{name}" for name in FILE_COLUMNS)]
        with self._database.read() as transaction:
            # The last job of each file is looked for once, however often the file was attached.
            rows = transaction.rows(
                f"SELECT {', '.join(columns)} FROM job_files f JOIN jobs j ON j.id = f.job_id "
                "JOIN (SELECT g.file_id AS file_id, MAX(k.number) AS latest FROM job_files g "
                f"JOIN jobs k ON k.id = g.job_id WHERE g.collection_id = ?{of_file} GROUP BY g.file_id) l "
                "ON l.file_id = f.file_id AND l.latest = j.number "
                f"WHERE f.collection_id = ? AND {seen} AND {condition} ORDER BY j.number, f.number",
                (collection_id, *named, collection_id, *owners),
            )
        jobs = len(JOB_COLUMNS)
        return [
            to_job(dict(zip(JOB_COLUMNS, row[:jobs], strict=True)), [dict(zip(FILE_COLUMNS, row[jobs:], strict=True))])
            for row in rows
        ]


def _take_out(transaction: Transaction, rows: Sequence[tuple[Any, ...]]) -> None:
    for row in rows:
        transaction.run("DELETE FROM job_files WHERE job_id = ? AND number = ?", row)
    for job_id in dict.fromkeys(row[0] for row in rows):
        if transaction.row("SELECT 1 FROM job_files WHERE job_id = ?", (job_id,)) is None:
            forget(transaction, "id = ?", job_id)
