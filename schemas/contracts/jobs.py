"""Jobs: uploaded files on their way into a collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.access.owners import UNNAMED, Ownership
from schemas.errors import BusyError, InvalidInputError, NotFoundError, TooManyRequestsError
from schemas.records import Metadata

QUEUED, RUNNING, DONE, FAILED, CANCELLED = STATUSES = ("queued", "running", "done", "failed", "cancelled")
"""The states of a job. One is `failed` when none of its files could be stored, and `done` when at least one is."""
READING, EMBEDDING, UNCHANGED = "reading", "embedding", "unchanged"
FILE_STATUSES = (QUEUED, READING, EMBEDDING, DONE, UNCHANGED, FAILED)
UNFINISHED = (QUEUED, READING, EMBEDDING)
"""The states of a file that has not ended."""
WAITING = (QUEUED, RUNNING)
"""The states of a job that has not ended."""
REFUSED = "refused"
TEXT_FAILED = "text_not_embedded"
"""The code of a file one of whose chunks cannot be embedded, while others can."""
REPLACE, SKIP = ON_CONFLICT = ("replace", "skip")
MAX_FILES = 1_000
"""The most files of one upload."""
INGEST = "ingest"
"""The kind of job that uploads make."""


Place = tuple[str | None, str]
"""The id of a collection, None while it does not exist, and the name that it had."""


@dataclass(frozen=True, slots=True)
class DueFile:
    """A file that may be worked on now: whose it is, its number in its job, and the collection that it goes into, by
    the name that it had; its id is None while it does not exist. It `is_suspect` when the service ended the last time
    that it was worked on, perhaps by it. `document` tells which document it becomes."""

    job_id: str
    number: int
    owner: str
    collection: str
    collection_id: str | None = None
    is_suspect: bool = False
    document: str | None = field(default=None, compare=False)

    @property
    def place(self) -> Place:
        return self.collection_id, self.collection

    @property
    def whose(self) -> str:
        """Whose turn it takes: its owner's and, where nobody has a name, its job's."""
        return self.owner or self.job_id


@dataclass(frozen=True, slots=True)
class JobCounts:
    """The jobs that are remembered, and the chunks that those under way have stored."""

    by_status: Mapping[str, int]
    chunks_done: int


class JobNotFoundError(NotFoundError):
    code = "job_not_found"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job '{job_id}' not found", id=job_id)


class JobsFullError(BusyError):
    """Too many files wait for the jobs before them, or too large ones."""

    code = "jobs_full"
    retry_after_seconds = 30


class OwnJobsFullError(TooManyRequestsError):
    """As much of the caller's waits as may of one owner."""

    code = "own_jobs_full"

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message, retry_after_seconds=JobsFullError.retry_after_seconds, limit=limit)


@dataclass(slots=True)
class Room:
    """How many more bytes of files may wait, of everybody's and of one owner's; the latter is at most `own_most`."""

    bytes: int
    own_bytes: int
    own_most: int

    def take(self, size: int) -> None:
        """Take so many bytes of it. Raises JobsFullError and OwnJobsFullError when it has less."""
        self.bytes -= size
        self.own_bytes -= size
        if self.bytes < 0:
            raise JobsFullError("Too large files are waiting for the jobs before them")
        if self.own_bytes < 0:
            sentence = (
                f"Of one owner's files at most {self.own_most >> 20} MB wait: send this when some of them are stored"
            )
            raise OwnJobsFullError(sentence, limit="upload_bytes_waiting")


class RefusedFileError(InvalidInputError):
    """One file of an upload cannot be taken; the others can. Its code is that of the file in the answer."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an upload asks for: where its files go, what each of their documents is given, and whether others may see
    its job."""

    collection: str
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    on_conflict: str = REPLACE
    shared: bool = False


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """A file that lies on the disk and waits for its job. `number` is its place in the job, from 0.

    What is said of a kept file (`file_id`) on its way into a collection is said of it alone: its document's source and
    metadata and, if they are not the usual ones, how long windows are and what they share, in tokens.
    """

    number: int
    name: str
    media_type: str
    size_bytes: int
    sha256: str
    file_id: str | None = None
    source: str = ""
    metadata: Metadata = field(default_factory=dict)
    windows: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class FileAnswer:
    """What became of a file of an upload: `queued` or `refused`, then with a code and a sentence."""

    name: str
    status: str
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class FileToCompare:
    """A file that may be stored already: the name that an upload would have, and the SHA-256 of its bytes."""

    name: str
    sha256: str


@dataclass(slots=True)
class ComparedFiles:
    """The names of files that are not in the collection, those of files that are stored otherwise, and the number of
    the others. An upload may have files of `max_file_bytes`."""

    collection: str
    max_file_bytes: int
    missing: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The answer to an upload, in values that an idempotency key keeps."""

    job_id: str
    status: str
    files: Sequence[Mapping[str, Any]]
    collection: str = ""
    """Where the files go; it is not told. Empty where an earlier release kept this."""


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file of a job and how far it is; the fields are the columns of its row.

    `source` is that of the document which it becomes, and `metadata` those that it is given beside the job's; `file_id`
    is that of a kept file, whose windows may have a length of their own; `collection_id` is None while the collection
    does not exist. `chunks_done` counts the chunks that are embedded, and `tries` those that ended in a failure which
    may pass.
    """

    number: int
    name: str
    media_type: str
    size_bytes: int
    status: str
    source: str
    document_id: str | None = None
    chunks: int | None = None
    chunks_done: int = 0
    pages: int | None = None
    warnings: tuple[str, ...] = ()
    code: str | None = None
    message: str | None = None
    tries: int = 0
    file_id: str | None = None
    collection_id: str | None = None
    metadata: Metadata = field(default_factory=dict)
    max_tokens: int | None = None
    overlap_tokens: int = 0

    @property
    def windows(self) -> tuple[int, int] | None:
        return None if self.max_tokens is None else (self.max_tokens, self.overlap_tokens)


@dataclass(frozen=True, slots=True)
class Job:
    """A job with its files in the order of the upload, or some of them. `number` is its place among all jobs. Times are
    ISO 8601 in UTC."""

    id: str
    number: int
    status: str
    created_at: str
    finished_at: str | None
    wanted: Wanted
    files: tuple[JobFile, ...]
    of: Ownership = UNNAMED

    @property
    def files_done(self) -> int:
        """The number of files that need nothing more, stored or not."""
        return sum(each.status in (DONE, UNCHANGED, FAILED) for each in self.files)

    def waits_for(self, file: JobFile) -> bool:
        """Return whether one of its files has not ended, nor the job before it."""
        return self.status in WAITING and file.status in UNFINISHED
