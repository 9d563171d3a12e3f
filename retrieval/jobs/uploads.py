"""Take the files of an upload: name by name, onto the disk, and then as one job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self

import orjson

from retrieval.ingest.identity import document_id
from retrieval.jobs.file_names import checked_name, shown_name
from retrieval.jobs.spool import Incoming, Spool
from retrieval.jobs.stored_jobs import StoredJobs
from retrieval.reading import Kind, kind_of
from schemas.access.owners import Asker
from schemas.contracts.jobs import (
    MAX_FILES,
    QUEUED,
    REFUSED,
    UNFINISHED,
    WAITING,
    FileAnswer,
    Job,
    JobFile,
    RefusedFileError,
    Room,
    Uploaded,
    Wanted,
)
from schemas.errors import InvalidInputError, PayloadTooLargeError
from schemas.storage.erasure import Target, UploadWaitingError


class Uploads:
    """Where uploads arrive; safe for use by several threads. `id_of` returns the id of the collection of a name, None
    while there is none; `queued` is called after each new job."""

    def __init__(
        self,
        jobs: StoredJobs,
        spool: Spool,
        *,
        max_file_bytes: int,
        id_of: Callable[[str], str | None],
        queued: Callable[[], None] = lambda: None,
    ) -> None:
        self._jobs = jobs
        self._spool = spool
        self._max_file_bytes = max_file_bytes
        self._id_of = id_of
        self._queued = queued

    def begin(self, *, asker: Asker) -> Upload:
        """Begin an upload. Raises JobsFullError and OwnJobsFullError when too much waits already."""
        room = self._jobs.room(asker=asker)
        return Upload(self._jobs, self._spool.begin(), self._max_file_bytes, room, self._id_of, self._queued)

    def cancel(self, job_id: str, *, asker: Asker) -> Job:
        """Cancel a job as `StoredJobs.cancel` does, and remove the files that wait."""
        job, was_waiting = self._jobs.cancel(job_id, asker=asker)
        if was_waiting:
            self._spool.remove(job_id)
        return job

    def named(self, target: Target) -> Target:
        """Return the target with the names of its uploaded files, and with the jobs of its owner.

        Raises UploadWaitingError when a job has yet to store one of its documents.
        """
        if target.owner is not None:
            target = replace(target, job_ids=frozenset(self._jobs.of_owner(target.owner)))
        if target.collection is None:
            return target
        files = [(job, file) for job, file in self._jobs.files() if _is_of(target, job.wanted, file)]
        for job, file in files:
            if job.waits_for(file):
                raise UploadWaitingError(job.id)
        return replace(target, file_names=frozenset(file.name for _, file in files))

    def holders(self, target: Target, files: Set[Path]) -> dict[Path, str]:
        """Return those of the files that wait and are not of the target, each with the name of its job."""
        return {
            path: f"upload job '{job.id}'"
            for job, file in self._jobs.files()
            if job.status in WAITING
            and (path := self._spool.path(job.id, file.number)) in files
            and job.id not in target.job_ids
            and not _is_of(target, job.wanted, file)
        }

    def erase(self, target: Target) -> int:
        """Forget the jobs that `named` found of an erased user, with their files, and what is told of erased documents.

        Return the number of jobs and files that were forgotten.
        """
        jobs = self._jobs.erase(target.job_ids)
        for job_id in target.job_ids:
            self._spool.remove(job_id)
        return jobs + (0 if target.collection is None else self._jobs.erase_files(partial(_is_of, target)))


def _is_of(target: Target, wanted: Wanted, file: JobFile) -> bool:
    if wanted.collection != target.collection:
        return False
    kind = kind_of(file.name, file.media_type)
    if kind is not None and kind.is_records and file.file_id is None:  # any document may be among its lines
        return file.status in UNFINISHED or bool(file.warnings)
    return (file.document_id or document_id(file.source)) in target.document_ids


class Upload:
    """One upload. Leaving the context without `finish` removes what has arrived."""

    def __init__(
        self,
        jobs: StoredJobs,
        incoming: Incoming,
        max_file_bytes: int,
        room: Room,
        id_of: Callable[[str], str | None],
        queued: Callable[[], None],
    ) -> None:
        self.files: list[FileAnswer] = []
        self._jobs = jobs
        self._incoming = incoming
        self._max_file_bytes = max_file_bytes
        self._room = room
        self._id_of = id_of
        self._queued = queued

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._incoming.__exit__(kind, error, traceback)

    def take(self, file_name: str, media_type: str, pieces: Iterable[bytes]) -> None:
        """Take a file, or refuse it and let the others go on.

        Raises JobsFullError and OwnJobsFullError when there is no room for it, PayloadTooLargeError for one file more
        than `MAX_FILES`, and DiskFloorError.
        """
        if len(self.files) == MAX_FILES:
            sentence = f"An upload has at most {MAX_FILES} files"
            raise PayloadTooLargeError(sentence, code="too_many_files", limit=MAX_FILES)
        try:
            name = checked_name(file_name)
            kind = self._checked_kind(name, media_type)
            # Records are read one by one, so that only the room bounds them.
            most = sys.maxsize if kind is not None and kind.is_records else self._max_file_bytes
            self._incoming.add(name, media_type, self._within_room(pieces), max_bytes=most)
        except RefusedFileError as error:
            self.files.append(FileAnswer(shown_name(file_name), REFUSED, error.code, error.message))
        else:
            self.files.append(FileAnswer(name, QUEUED))

    def content(self, wanted: Wanted) -> bytes:
        """Return what tells this upload from others: what it asks for, and the names, types and digests of its files.

        Its body would not do: forms have another boundary each time.
        """
        files = [[each.name, each.media_type, each.sha256] for each in self._incoming.files]
        return orjson.dumps([asdict(wanted), files], option=orjson.OPT_SORT_KEYS)

    def finish(self, wanted: Wanted, *, asker: Asker) -> Uploaded:
        """Make a job of the files, which are safe on the disk then and go into the collection that has the name now.

        Raises InvalidInputError when none was taken, JobsFullError and OwnJobsFullError.
        """
        if not self.files:
            raise InvalidInputError("There is no file in the request", code="invalid_field", field="file")
        if not self._incoming.files:
            first = self.files[0]
            raise InvalidInputError(
                f"No file was taken; '{first.name}': {first.message}",
                code="no_file_taken",
                field="file",
                files=[asdict(each) for each in self.files],
            )
        self._incoming.sync()
        collection_id = self._id_of(wanted.collection)
        self._jobs.create(self._incoming.job_id, wanted, self._incoming.files, asker=asker, collection_id=collection_id)
        self._incoming.keep()
        self._queued()
        return Uploaded(self._incoming.job_id, QUEUED, [asdict(each) for each in self.files], wanted.collection)

    def take_back(self, answered: object) -> None:
        """Discard this job when another request with the same key was answered first."""
        if isinstance(answered, Uploaded) and answered.job_id != self._incoming.job_id and self._incoming.is_kept:
            self._jobs.erase([self._incoming.job_id])
            self._incoming.drop()

    def _checked_kind(self, name: str, media_type: str) -> Kind | None:
        if any(each.name == name for each in self._incoming.files):
            raise RefusedFileError(
                "The same name is in this upload twice: the first one is taken", code="repeated_name"
            )
        kind = kind_of(name, media_type)
        # What has no suffix is told by its first bytes, when it is read.
        if kind is None and (suffix := PurePosixPath(name).suffix):
            raise RefusedFileError(f"is of a kind that cannot be read ({suffix})", code="unsupported_kind")
        return kind

    def _within_room(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._room.take(len(piece))
            yield piece
