"""Files that are kept for their owners: the bytes on the disk like those of uploads, the rest in the catalogue.

A file lies at `files/<hexadecimal digits of its id>/0` in the data directory where it arrived. Ids grow with time, so
that a list goes on behind one that is gone by now.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from pathlib import Path
from typing import Any, Self

from retrieval.ingest.identity import document_id
from retrieval.jobs.file_names import checked_name
from retrieval.jobs.job_rows import insert, rows_of
from retrieval.jobs.spool import Incoming, Spool
from schemas.access.owners import AUDIENCE_COLUMN, OWNER_COLUMN, Asker, Ownership
from schemas.contracts.jobs import RefusedFileError, SpooledFile
from schemas.contracts.kept_files import PREFIX, KeptFile, KeptFileNotFoundError
from schemas.errors import InvalidInputError, PayloadTooLargeError, QuotaError
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure import Target

STEPS = (
    (
        f"""CREATE TABLE kept_files (
            id VARCHAR(40) PRIMARY KEY, name {{text}} NOT NULL, purpose VARCHAR(40) NOT NULL,
            media_type {{text}} NOT NULL, size_bytes BIGINT NOT NULL, sha256 VARCHAR(64) NOT NULL,
            created_at_ms BIGINT NOT NULL, expires_at_ms BIGINT, {OWNER_COLUMN}, {AUDIENCE_COLUMN}
        )""",
        "CREATE INDEX kept_files_by_expiry ON kept_files (expires_at_ms)",
    ),
)
FOLDER = "files"
ID = re.compile(rf"{PREFIX}[0-9a-f]{{32}}")
TIME_DIGITS = 12
"""The digits of an id that tell the milliseconds at which it was made."""
_TABLE = "kept_files"
_COLUMNS = (
    *("id", "name", "purpose", "media_type", "size_bytes", "sha256", "created_at_ms", "expires_at_ms"),
    *("owner", "audience"),
)


class KeptFiles:
    """The files of one catalogue, the bytes of those that arrived here; safe for use by several threads and processes.

    `clock` returns seconds since the epoch.
    """

    def __init__(
        self,
        database: Database,
        data_dir: Path,
        *,
        max_file_bytes: int,
        max_owner_bytes: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._spool = Spool(data_dir, FOLDER, new_name=self._new_digits)
        self._max_file_bytes = max_file_bytes
        self._max_owner_bytes = max_owner_bytes
        self._clock = clock
        done = "removed, those that an erased document was made of as a whole"
        database.open_part("kept_files", STEPS, Place("kept files", done, self.erase, holders=self.holders))

    def begin(self) -> ArrivingFile:
        """Begin to take a file."""
        return ArrivingFile(self._spool.begin(), self._max_file_bytes, self._store)

    def one(self, file_id: str, *, asker: Asker) -> KeptFile:
        """Return a file. Raises KeptFileNotFoundError when the asker has none of that id, or it has expired."""
        with self._database.read() as transaction:
            return self._owned(transaction, file_id, asker)

    def named(self, file_ids: Sequence[str], *, asker: Asker) -> list[KeptFile]:
        """Return these files in this order. Raises KeptFileNotFoundError for the first that the asker has not."""
        with self._database.read() as transaction:
            return [self._owned(transaction, each, asker) for each in file_ids]

    def page(
        self, *, asker: Asker, purpose: str | None, limit: int, after: str | None, newest_first: bool
    ) -> tuple[list[KeptFile], bool]:
        """Return (the asker's files behind the id `after`, by the time they came; whether there are more).

        Raises InvalidInputError for what can be the id of no file.
        """
        if after is not None and ID.fullmatch(after) is None:
            raise InvalidInputError("after is the id of no file", code="invalid_cursor", field="after")
        condition, parameters = self._mine(asker)
        if purpose is not None:
            condition, parameters = f"{condition} AND purpose = ?", (*parameters, purpose)
        if after is not None:
            condition, parameters = f"{condition} AND id {'<' if newest_first else '>'} ?", (*parameters, after)
        order = "DESC" if newest_first else "ASC"
        with self._database.read() as transaction:
            found = self._files(transaction, f"WHERE {condition} ORDER BY id {order} LIMIT ?", (*parameters, limit + 1))
        return found[:limit], len(found) > limit

    def content(self, file: KeptFile) -> Path:
        """Return where the bytes of a file lie. Raises KeptFileNotFoundError when that is not here, but in the data
        directory of another service."""
        path = self._spool.path(file.id.removeprefix(PREFIX), 0)
        if not path.is_file():
            raise KeptFileNotFoundError(file.id)
        return path

    def delete(self, file_id: str, *, asker: Asker) -> KeptFile:
        """Delete a file, and return what it was. Raises KeptFileNotFoundError."""

        def operation(transaction: Transaction) -> KeptFile:
            file = self._owned(transaction, file_id, asker)
            transaction.run("DELETE FROM kept_files WHERE id = ?", (file_id,))
            return file

        file = self._database.freely.commit(operation)
        self._spool.remove(file_id.removeprefix(PREFIX))
        return file

    def sweep(self) -> None:
        """Remove the files that have expired, and bytes that belong to none."""
        now_ms = self._now_ms()
        self._database.freely.commit_quickly(
            lambda transaction: transaction.run("DELETE FROM kept_files WHERE expires_at_ms <= ?", (now_ms,))
        )
        self._spool.sweep(self._known)

    def erase(self, target: Target) -> int:
        """Remove the files of an erased user, and those that erased documents were made of. Return their number."""

        def operation(transaction: Transaction) -> list[str]:
            doomed = [each.id for each in self._files(transaction) if _is_of(target, each)]
            for file_id in doomed:
                transaction.run("DELETE FROM kept_files WHERE id = ?", (file_id,))
            return doomed

        doomed = self._database.freely.commit(operation)
        for file_id in doomed:
            self._spool.remove(file_id.removeprefix(PREFIX))
        return len(doomed)

    def holders(self, target: Target, files: Set[Path]) -> dict[Path, str]:
        """Return those of the files that are kept and not of the target, each with its name."""
        with self._database.read() as transaction:
            known = self._files(transaction)
        return {
            path: f"file '{each.id}'"
            for each in known
            if (path := self._spool.path(each.id.removeprefix(PREFIX), 0)) in files and not _is_of(target, each)
        }

    def _store(
        self, digits: str, taken: SpooledFile, purpose: str, lives_seconds: int | None, of: Ownership
    ) -> KeptFile:
        now_ms = self._now_ms()
        expires_at_ms = None if lives_seconds is None else now_ms + lives_seconds * 1_000
        file = KeptFile(
            *(PREFIX + digits, taken.name, purpose, taken.media_type, taken.size_bytes, taken.sha256),
            created_at_ms=now_ms,
            expires_at_ms=expires_at_ms,
            of=of,
        )
        row = {name: getattr(file, name) for name in _COLUMNS[:-2]} | {"owner": of.owner, "audience": of.audience}

        def operation(transaction: Transaction) -> None:
            held = transaction.row(
                "SELECT COALESCE(SUM(size_bytes), 0) FROM kept_files "
                "WHERE owner = ? AND (expires_at_ms IS NULL OR expires_at_ms > ?)",
                (of.owner, now_ms),
            )
            left = self._max_owner_bytes - (0 if held is None else int(held[0]))
            if file.size_bytes > left:
                raise QuotaError(
                    f"The files of one owner take at most {self._max_owner_bytes >> 20} MB, and there is room for "
                    f"{max(0, left):,} bytes more: delete some, or have them expire",
                    limit="files",
                    allowed=self._max_owner_bytes,
                    left=max(0, left),
                    added=file.size_bytes,
                )
            insert(transaction, _TABLE, row)

        self._database.commit(operation)
        return file

    def _owned(self, transaction: Transaction, file_id: str, asker: Asker) -> KeptFile:
        condition, parameters = self._mine(asker)
        found = self._files(transaction, f"WHERE id = ? AND {condition}", (file_id, *parameters))
        if not found:
            raise KeptFileNotFoundError(file_id)
        return found[0]

    def _mine(self, asker: Asker) -> tuple[str, tuple[Any, ...]]:
        """Return (a condition for files of the asker's that have not expired, its parameters)."""
        seen, owners = asker.seen()
        return f"{seen} AND (expires_at_ms IS NULL OR expires_at_ms > ?)", (*owners, self._now_ms())

    def _files(self, transaction: Transaction, condition: str = "", parameters: Sequence[Any] = ()) -> list[KeptFile]:
        rows = rows_of(transaction, _TABLE, _COLUMNS, condition, parameters)
        return [KeptFile(of=Ownership(row.pop("owner"), row.pop("audience")), **row) for row in rows]

    def _known(self, names: Collection[str]) -> set[str]:
        with self._database.read() as transaction:
            return {
                each
                for each in names
                if transaction.row("SELECT 1 FROM kept_files WHERE id = ?", (PREFIX + each,)) is not None
            }

    def _new_digits(self) -> str:
        return f"{self._now_ms():0{TIME_DIGITS}x}{secrets.token_hex(16 - TIME_DIGITS // 2)}"

    def _now_ms(self) -> int:
        return round(self._clock() * 1e3)


class ArrivingFile:
    """A file that is arriving. Leaving the context without `finish` removes what has arrived."""

    def __init__(
        self,
        incoming: Incoming,
        max_file_bytes: int,
        store: Callable[[str, SpooledFile, str, int | None, Ownership], KeptFile],
    ) -> None:
        self._incoming = incoming
        self._max_file_bytes = max_file_bytes
        self._store = store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *told: object) -> None:
        self._incoming.__exit__(*told)

    def take(self, name: str, media_type: str, pieces: Iterable[bytes]) -> None:
        """Take the bytes. Raises InvalidInputError for a name that is none, an empty file and a second one,
        PayloadTooLargeError, and DiskFloorError."""
        if self._incoming.files:
            raise InvalidInputError("There are several files in the request", code="invalid_field", field="file")
        try:
            self._incoming.add(checked_name(name), media_type, pieces, max_bytes=self._max_file_bytes)
        except RefusedFileError as error:
            if error.code == "too_large":
                sentence, most = f"The file {error.message}", self._max_file_bytes
                raise PayloadTooLargeError(sentence, code="file_too_large", field="file", limit=most) from None
            sentence = "The file is empty" if error.code == "empty" else error.message
            raise InvalidInputError(sentence, code="invalid_field", field="file") from None

    def finish(self, *, purpose: str, lives_seconds: int | None, asker: Asker) -> KeptFile:
        """Keep the file as one of the asker's, safe on the disk. Raises InvalidInputError when none was taken, and
        QuotaError when the asker's files would take more than one owner's may."""
        if not self._incoming.files:
            raise InvalidInputError("There is no file in the request", code="invalid_field", field="file")
        self._incoming.sync()
        of = asker.made(shared=False)
        file = self._store(self._incoming.job_id, self._incoming.files[0], purpose, lives_seconds, of)
        self._incoming.keep()
        return file


def source_of(file: KeptFile) -> str:
    """Return the source of the document that is made of a file: another one for each file, whatever its name."""
    return f"{file.id}/{file.name}"


def file_of(source: object, of_document: object) -> str | None:
    """Return the id of the file that a document of this source and id was made of, None when it was made otherwise."""
    if not isinstance(source, str):
        return None
    file_id, slash, _ = source.partition("/")
    return file_id if slash and ID.fullmatch(file_id) and document_id(source) == of_document else None


def _is_of(target: Target, file: KeptFile) -> bool:
    if target.owner is not None and file.of.owner == target.owner:
        return True
    return document_id(source_of(file)) in target.document_ids
