"""Files that are kept for their owners: the bytes on the disk like those of uploads, the rest in the catalogue.

A file lies at `files/<hexadecimal digits of its id>/0` in the data directory where it arrived. Ids grow with time, so
that a list goes on behind one that is gone by now.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import asdict
from pathlib import Path

from retrieval.ingest.identity import document_id
from retrieval.jobs.spool import Incoming, Spool, checked_name
from schemas.access.owners import AUDIENCE_COLUMN, OWNER_COLUMN, Asker
from schemas.contracts.jobs import RefusedFileError, SpooledFile
from schemas.contracts.kept_files import PREFIX, KeptFile, KeptFileNotFoundError
from schemas.contracts.vector_stores import FileToAttach
from schemas.errors import InvalidInputError, PayloadTooLargeError, QuotaError
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure import Target
from schemas.storage.small_tables import Condition, Part, Table, having, seen_by

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
FILE_ID = "file_id"
"""The metadata of chunks that tells of which kept file they were made."""
ID = re.compile(rf"{PREFIX}[0-9a-f]{{32}}")
TIME_DIGITS = 12
"""The digits of an id that tell the milliseconds at which it was made."""
OLDEST_FIRST, NEWEST_FIRST = (Table("kept_files", KeptFile, order=order) for order in ("id", "id DESC"))


class KeptFiles(Part):
    """The files of one catalogue, the bytes of those that arrived here."""

    def __init__(
        self,
        database: Database,
        data_dir: Path,
        *,
        max_file_bytes: int,
        max_owner_bytes: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        done = "removed, those that an erased document was made of as a whole"
        place = Place("kept files", done, self.erase, holders=self.holders)
        super().__init__(database, "kept_files", STEPS, place, clock=clock)
        self._spool = Spool(data_dir, FOLDER, new_name=self._new_digits)
        self._max_file_bytes = max_file_bytes
        self._max_owner_bytes = max_owner_bytes

    def begin(self) -> Incoming:
        """Begin to take a file, which is gone when the context is left before it is kept."""
        return self._spool.begin()

    def take(self, incoming: Incoming, name: str, media_type: str, pieces: Iterable[bytes]) -> None:
        """Take the bytes. Raises InvalidInputError for a name that is none, an empty file and a second one,
        PayloadTooLargeError, and DiskFloorError."""
        if incoming.files:
            raise InvalidInputError("There are several files in the request", code="invalid_field", field="file")
        try:
            incoming.add(checked_name(name), media_type, pieces, max_bytes=self._max_file_bytes)
        except RefusedFileError as error:
            if error.code == "too_large":
                sentence, most = f"The file {error.message}", self._max_file_bytes
                raise PayloadTooLargeError(sentence, code="file_too_large", field="file", limit=most) from None
            sentence = "The file is empty" if error.code == "empty" else error.message
            raise InvalidInputError(sentence, code="invalid_field", field="file") from None

    def keep(self, incoming: Incoming, purpose: str, lives_seconds: int | None, *, asker: Asker) -> KeptFile:
        """Keep the file as one of the asker's, safe on the disk. Raises InvalidInputError when none was taken, and
        QuotaError when the asker's files would take more than one owner's may."""
        if not incoming.files:
            raise InvalidInputError("There is no file in the request", code="invalid_field", field="file")
        incoming.sync()
        [taken], now_ms = incoming.files, self._now_ms()
        file = KeptFile(
            *(PREFIX + incoming.job_id, taken.name, purpose, taken.media_type, taken.size_bytes, taken.sha256),
            created_at_ms=now_ms,
            expires_at_ms=None if lives_seconds is None else now_ms + lives_seconds * 1_000,
            owner=asker.owner,
        )

        def operation(transaction: Transaction) -> None:
            lasting = having(owner=file.owner) & self._lasting()
            [[held]] = transaction.rows(
                f"SELECT COALESCE(SUM(size_bytes), 0) FROM kept_files WHERE {lasting.sql}", lasting.parameters
            )
            left = self._max_owner_bytes - int(held)
            if file.size_bytes > left:
                raise QuotaError(
                    f"The files of one owner take at most {self._max_owner_bytes >> 20} MB, and there is room for "
                    f"{max(0, left):,} bytes more: delete some, or have them expire",
                    limit="files",
                    allowed=self._max_owner_bytes,
                    left=max(0, left),
                    added=file.size_bytes,
                )
            OLDEST_FIRST.insert(transaction, **asdict(file))

        self._database.commit(operation)
        incoming.is_kept = True
        return file

    def one(self, file_id: str, *, asker: Asker) -> KeptFile:
        """Return a file. Raises KeptFileNotFoundError when the asker has none of that id, or it has expired."""
        [file] = self.named([file_id], asker=asker)
        return file

    def named(self, file_ids: Sequence[str], *, asker: Asker) -> list[KeptFile]:
        """Return these files in this order. Raises KeptFileNotFoundError for the first that the asker has not."""
        with self._database.read() as transaction:
            return [self._owned(transaction, each, asker) for each in file_ids]

    def to_attach(self, wanted: Sequence[FileToAttach], *, asker: Asker) -> list[tuple[Path, SpooledFile]]:
        """Return (where it lies, what is said of it) for files of the asker's that are to become documents, each once.

        Raises KeptFileNotFoundError for the first that the asker has not, or that is not here.
        """
        of_files = {each.file_id: each for each in wanted}
        return [
            (
                self.content(file),
                SpooledFile(
                    *(0, file.name, file.media_type, file.size_bytes, file.sha256),
                    file_id=file.id,
                    source=source_of(file),
                    metadata={**of_files[file.id].attributes, FILE_ID: file.id},
                    windows=of_files[file.id].windows,
                ),
            )
            for file in self.named(list(of_files), asker=asker)
        ]

    def page(
        self, *, asker: Asker, purpose: str | None, limit: int, after: str | None, newest_first: bool
    ) -> tuple[list[KeptFile], bool]:
        """Return (the asker's files behind the id `after`, by the time they came; whether there are more).

        Raises InvalidInputError for what can be the id of no file.
        """
        wanted = seen_by(asker) & self._lasting()
        if purpose is not None:
            wanted &= having(purpose=purpose)
        if after is not None:
            if ID.fullmatch(after) is None:
                raise InvalidInputError("after is the id of no file", code="invalid_cursor", field="after")
            wanted &= Condition(f"id {'<' if newest_first else '>'} ?", (after,))
        table = NEWEST_FIRST if newest_first else OLDEST_FIRST
        found = self._rows(table, wanted, limit=limit + 1)
        return found[:limit], len(found) > limit

    def content(self, file: KeptFile) -> Path:
        """Return where the bytes of a file lie. Raises KeptFileNotFoundError when that is not here, but in the data
        directory of another service."""
        path = self._path(file)
        if not path.is_file():
            raise KeptFileNotFoundError(file.id)
        return path

    def delete(self, file_id: str, *, asker: Asker) -> KeptFile:
        """Delete a file, and return what it was. Raises KeptFileNotFoundError."""
        deleted = self._delete(lambda transaction: [self._owned(transaction, file_id, asker)])
        return deleted[0]

    def sweep(self) -> None:
        """Remove the files that have expired, and bytes that belong to none."""
        expired = Condition("expires_at_ms <= ?", (self._now_ms(),))
        self._database.freely.commit_quickly(lambda transaction: OLDEST_FIRST.delete(transaction, expired))
        self._spool.sweep(self._known)

    def erase(self, target: Target) -> int:
        """Remove the files of an erased user, and those that erased documents were made of. Return their number."""
        return len(
            self._delete(lambda transaction: [each for each in OLDEST_FIRST.rows(transaction) if _is_of(target, each)])
        )

    def holders(self, target: Target, files: Set[Path]) -> dict[Path, str]:
        """Return those of the files that are kept and not of the target, each with its name."""
        known = self._rows(OLDEST_FIRST)
        kept = {self._path(each): f"file '{each.id}'" for each in known if not _is_of(target, each)}
        return {path: name for path, name in kept.items() if path in files}

    def _delete(self, find: Callable[[Transaction], list[KeptFile]]) -> list[KeptFile]:
        def operation(transaction: Transaction) -> list[KeptFile]:
            found = find(transaction)
            for each in found:
                OLDEST_FIRST.delete(transaction, having(id=each.id))
            return found

        deleted = self._database.freely.commit(operation)
        for each in deleted:
            self._spool.remove(each.id.removeprefix(PREFIX))
        return deleted

    def _owned(self, transaction: Transaction, file_id: str, asker: Asker) -> KeptFile:
        found = OLDEST_FIRST.first(transaction, having(id=file_id) & seen_by(asker) & self._lasting())
        if found is None:
            raise KeptFileNotFoundError(file_id)
        return found

    def _lasting(self) -> Condition:
        """Return the condition for files that have not expired."""
        return Condition("expires_at_ms IS NULL OR expires_at_ms > ?", (self._now_ms(),))

    def _path(self, file: KeptFile) -> Path:
        return self._spool.path(file.id.removeprefix(PREFIX), 0)

    def _known(self, names: Collection[str]) -> set[str]:
        known = self._rows(OLDEST_FIRST, having(id=tuple(PREFIX + each for each in names)))
        return {each.id.removeprefix(PREFIX) for each in known}

    def _new_digits(self) -> str:
        return f"{self._now_ms():0{TIME_DIGITS}x}{secrets.token_hex(16 - TIME_DIGITS // 2)}"


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
    if target.owner is not None and file.owner == target.owner:
        return True
    return document_id(source_of(file)) in target.document_ids
