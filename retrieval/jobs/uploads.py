"""Take the files of an upload: name by name, onto the disk, and then as one job. Tell before which of them are stored
already, so that whoever keeps a folder in step uploads only the others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath

import orjson

from providers.base import SupportsMetadataFiltering
from retrieval.ingest.collection_writer import batches
from retrieval.ingest.files import fingerprint_of
from retrieval.ingest.identity import document_id, file_ids, stored_name
from retrieval.ingest.ingestion import is_same_file
from retrieval.ingest.profiles import chunking_of
from retrieval.ingest.zip_members import Archive, Member, opened_archive
from retrieval.jobs.spool import COPIED_BYTES, Incoming, Spool, checked_name, shown_name
from retrieval.jobs.stored_jobs import StoredJobs
from retrieval.reading import EMPTY, UNSUPPORTED_KIND, Kind, UnreadableError, instead_of, kind_of
from retrieval.text_collections import TextCollections
from schemas.access.owners import Asker
from schemas.bounds import MAX_PAGE
from schemas.contracts.jobs import (
    MAX_FILES,
    QUEUED,
    REFUSED,
    UNFINISHED,
    WAITING,
    ComparedFiles,
    FileAnswer,
    FileToCompare,
    Job,
    JobFile,
    RefusedFileError,
    Room,
    SpooledFile,
    Uploaded,
    Wanted,
)
from schemas.contracts.kept_files import KeptFileNotFoundError
from schemas.errors import CollectionNotFoundError, InvalidInputError, PayloadTooLargeError
from schemas.records import Metadata
from schemas.settings import RetrievalSettings
from schemas.storage.erasure import Target, UploadWaitingError
from schemas.where import And, Equals, In

FILES_AT_ONCE = 100
"""The files of one query of what is stored, each of which may be stored under several ids."""


@dataclass(slots=True)
class Uploads:
    """Where uploads arrive; safe for use by several threads. `id_of` returns the id of the collection of a name, None
    while there is none; `queued` is called after each new job."""

    jobs: StoredJobs
    spool: Spool
    max_file_bytes: int
    id_of: Callable[[str], str | None]
    queued: Callable[[], None] = lambda: None

    def begin(self, *, asker: Asker) -> Upload:
        """Begin an upload. Raises JobsFullError and OwnJobsFullError when too much waits already."""
        room = self.jobs.room(asker=asker)
        return Upload(self, self.spool.begin(), room)

    def attach(
        self, collection_id: str, collection: str, files: Sequence[tuple[Path, SpooledFile]], *, asker: Asker
    ) -> Job:
        """Make a job of kept files, (where each lies, what is said of it), that become documents of a collection.

        Raises KeptFileNotFoundError for one that is gone, JobsFullError, OwnJobsFullError and DiskFloorError.
        """
        with self.spool.begin() as incoming:
            for path, told in files:
                try:
                    incoming.link(path, told)
                except FileNotFoundError:  # deleted meanwhile
                    raise KeptFileNotFoundError(told.file_id or "") from None
            self.queue(incoming, Wanted(collection), collection_id, asker=asker)
        return self.jobs.one(incoming.job_id, asker=asker)

    def queue(self, incoming: Incoming, wanted: Wanted, collection_id: str | None, *, asker: Asker) -> None:
        """Make a job of files, which are safe on the disk then. Raises JobsFullError and OwnJobsFullError."""
        incoming.sync()
        self.jobs.create(incoming.job_id, wanted, incoming.files, asker=asker, collection_id=collection_id)
        incoming.is_kept = True
        self.queued()

    def cancel(self, job_id: str, *, asker: Asker) -> Job:
        """Cancel a job as `StoredJobs.cancel` does, and remove the files that wait."""
        job, was_waiting = self.jobs.cancel(job_id, asker=asker)
        if was_waiting:
            self.spool.remove(job_id)
        return job

    def named(self, target: Target) -> Target:
        """Return the target with the names of its uploaded files, and with the jobs of its owner.

        Raises UploadWaitingError when a job has yet to store one of its documents.
        """
        if target.owner is not None:
            target = replace(target, job_ids=frozenset(self.jobs.of_owner(target.owner)))
        if target.collection is None:
            return target
        files = [(job, file) for job, file in self.jobs.files() if _is_of(target, job.wanted, file)]
        for job, file in files:
            if job.waits_for(file):
                raise UploadWaitingError(job.id)
        return replace(target, file_names=frozenset(file.name for _, file in files))

    def holders(self, target: Target, files: Set[Path]) -> dict[Path, str]:
        """Return those of the files that wait and are not of the target, each with the name of its job."""
        return {
            path: f"upload job '{job.id}'"
            for job, file in self.jobs.files()
            if job.status in WAITING
            and (path := self.spool.path(job.id, file.number)) in files
            and job.id not in target.job_ids
            and not _is_of(target, job.wanted, file)
        }

    def erase(self, target: Target) -> int:
        """Forget the jobs that `named` found of an erased user, with their files, and what is told of erased documents.

        Return the number of jobs and files that were forgotten.
        """
        jobs = self.jobs.erase(target.job_ids)
        for job_id in target.job_ids:
            self.spool.remove(job_id)
        return jobs + (0 if target.collection is None else self.jobs.erase_files(partial(_is_of, target)))


def _is_of(target: Target, wanted: Wanted, file: JobFile) -> bool:
    if wanted.collection != target.collection:
        return False
    kind = kind_of(file.name, file.media_type)
    if kind is not None and kind.is_records and file.file_id is None:  # any document may be among its lines
        return file.status in UNFINISHED or bool(file.warnings)
    return (file.document_id or document_id(file.source)) in target.document_ids


@dataclass(slots=True)
class Upload(AbstractContextManager["Upload"]):
    """One upload. Leaving the context without `finish` removes what has arrived."""

    _uploads: Uploads
    _incoming: Incoming
    _room: Room
    files: list[FileAnswer] = field(default_factory=list)

    def __exit__(self, *told: object) -> None:
        self._incoming.__exit__(*told)

    def take(self, file_name: str, media_type: str, pieces: Iterable[bytes]) -> None:
        """Take a file, for an archive its members, or refuse it and let the others go on.

        Raises JobsFullError and OwnJobsFullError when there is no room for it, PayloadTooLargeError for one file more
        than `MAX_FILES`, and DiskFloorError.
        """
        with self._refusing(file_name):
            name = checked_name(file_name)
            kind = self._checked_kind(name, media_type)
            # Records are read one by one, so that only the room bounds them.
            most = sys.maxsize if kind is not None and kind.is_records else self._uploads.max_file_bytes
            self._incoming.add(name, media_type, self._within_room(pieces), max_bytes=most)
            if kind is None or not kind.is_archive:
                self.files.append(FileAnswer(name, QUEUED))
                return
            with self._incoming.take_back() as opened, opened_archive(opened) as archive:
                count = len(self.files)
                for member in archive.members():
                    self._take_member(archive, member, f"{name}/{member.name}")
                if len(self.files) == count:
                    raise UnreadableError("has no files in it", code=EMPTY)

    def _take_member(self, archive: Archive, member: Member, file_name: str) -> None:
        with self._refusing(file_name):
            if member.kind is None:
                raise UnreadableError(member.message, code=member.code)
            with archive.open(member.name) as opened:
                self.take(file_name, "", iter(partial(opened.read, COPIED_BYTES), b""))

    @contextmanager
    def _refusing(self, file_name: str) -> Iterator[None]:
        """Refuse a file that cannot be taken in the block."""
        if len(self.files) == MAX_FILES:
            sentence = f"An upload has at most {MAX_FILES} files"
            raise PayloadTooLargeError(sentence, code="too_many_files", limit=MAX_FILES)
        try:
            yield
        except (RefusedFileError, UnreadableError) as error:
            self.files.append(FileAnswer(shown_name(file_name), REFUSED, error.code, error.message))

    def content(self, wanted: Wanted) -> bytes:
        """Return what tells this upload from others: what it asks for, and the names, types and digests of its files.

        Its body would not do: forms have another boundary each time.
        """
        files = [[each.name, each.media_type, each.sha256] for each in self._incoming.files]
        return orjson.dumps([asdict(wanted), files], option=orjson.OPT_SORT_KEYS)

    def finish(self, wanted: Wanted, *, asker: Asker) -> Uploaded:
        """Make a job of the files, which go into the collection that has the name now.

        Raises InvalidInputError when none was taken, JobsFullError and OwnJobsFullError.
        """
        if not self.files:
            raise InvalidInputError("There is no file in the request", code="invalid_field", field="file")
        files = [asdict(each) for each in self.files]
        if not self._incoming.files:
            sentence = f"No file was taken; '{self.files[0].name}': {self.files[0].message}"
            raise InvalidInputError(sentence, code="no_file_taken", field="file", files=files)
        self._uploads.queue(self._incoming, wanted, self._uploads.id_of(wanted.collection), asker=asker)
        return Uploaded(self._incoming.job_id, QUEUED, files, wanted.collection)

    def take_back(self, answered: object) -> None:
        """Discard this job when another request with the same key was answered first."""
        if isinstance(answered, Uploaded) and answered.job_id != self._incoming.job_id and self._incoming.is_kept:
            self._uploads.jobs.erase([self._incoming.job_id])
            self._incoming.is_kept = False

    def _checked_kind(self, name: str, media_type: str) -> Kind | None:
        if any(each.name == name for each in self._incoming.files):
            raise RefusedFileError(
                "The same name is in this upload twice: the first one is taken", code="repeated_name"
            )
        kind = kind_of(name, media_type)
        # What has no suffix is told by its first bytes, when it is read.
        if kind is None and (suffix := PurePosixPath(name).suffix):
            sentence = instead_of(name) or f"is of a kind that cannot be read ({suffix})"
            raise RefusedFileError(sentence, code=UNSUPPORTED_KIND)
        return kind

    def _within_room(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._room.take(len(piece))
            yield piece


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """Compares files with what is stored; usable by several threads. An upload may have files of `max_file_bytes`."""

    texts: TextCollections
    settings: RetrievalSettings
    max_file_bytes: int

    def compare(self, collection: str, files: Sequence[FileToCompare], metadata: Metadata) -> ComparedFiles:
        """Return which of the files an upload with this metadata would store for the first time, or again.

        Unchanged is a document of the same bytes, split and embedded as the service does it now. Raises
        EmbeddingFailureError when the collection's connection cannot be opened, and what the store raises.
        """
        embedding = self.texts.embedding(collection)
        label = chunking_of(self.settings, embedding).label
        as_now = {"chunking": label, "embedding_model": embedding.model, "given": fingerprint_of(metadata)}
        result = ComparedFiles(collection, self.max_file_bytes)
        try:
            for some in batches(files, FILES_AT_ONCE):
                self._compare(collection, some, as_now, result)
        except CollectionNotFoundError:
            return ComparedFiles(collection, self.max_file_bytes, missing=[each.name for each in files])
        return result

    def _compare(
        self, collection: str, files: Sequence[FileToCompare], as_now: Metadata, result: ComparedFiles
    ) -> None:
        reads = self.texts.corpus.open().able(SupportsMetadataFiltering)

        def count(names: Iterable[str]) -> int:
            ids = tuple(id for name in names for id in ids_of[name])
            return reads.documents(collection, In("document_id", ids), limit=1).total

        ids_of = {each.name: file_ids(stored_name(each.name)) for each in files}
        whole = And((In("document_id", tuple(chain(*ids_of.values()))), Equals("chunk_index", 0)))
        page = reads.documents(collection, whole, limit=MAX_PAGE)
        first_of = {each.metadata["document_id"]: each.metadata for each in page.documents}
        chunks_of: dict[str, int] = {}
        for each in files:
            stored = [first_of[id] for id in ids_of[each.name] if id in first_of]
            if not stored:
                result.missing.append(each.name)
            elif len(stored) == 1 and is_same_file(stored[0], {**as_now, "hash": each.sha256}):
                chunks_of[each.name] = stored[0]["chunk_count"]
            else:
                result.changed.append(each.name)
        # Chunks can be deleted one by one, too.
        if chunks_of and count(chunks_of) != sum(chunks_of.values()):
            broken = [name for name, chunks in chunks_of.items() if count([name]) != chunks]
            result.changed += broken
            result.unchanged -= len(broken)
        result.unchanged += len(chunks_of)
