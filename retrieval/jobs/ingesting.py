"""The work on one file of a job: it is read, split, embedded and stored as loading does it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from providers.embeddings.base import EmbeddingProvider
from providers.outbound import deadlines
from retrieval.chunking import SplitDocument, Syntax
from retrieval.documents.originals import Originals
from retrieval.ingest.collection_writer import CollectionWriter
from retrieval.ingest.drafts import SourceDocument
from retrieval.ingest.embedding_texts import Embed, TextFailedError, embed_or_name
from retrieval.ingest.files import GivenFile, source_document, unchanged
from retrieval.ingest.identity import document_id
from retrieval.ingest.ingestion import UNCHANGED as STORED_ALREADY
from retrieval.ingest.ingestion import ingest_document
from retrieval.ingest.profiles import Chunking, chunking_of, windows_within
from retrieval.jobs.record_files import RecordFile, count_lines
from retrieval.jobs.spool import Spool
from retrieval.jobs.stored_jobs import StoredJobs
from retrieval.jobs.vector_cache import VectorCache
from retrieval.reading import UNREADABLE, DocumentReader, Parsed, kind_of_file
from retrieval.text_collections import TextCollections
from retrieval.workers.worker_process import WorkerEndedError
from schemas.access.callers import Caller, acting_as
from schemas.connections import CollectionInfo
from schemas.contracts.jobs import DONE, EMBEDDING, FAILED, SKIP, UNCHANGED, DueFile, Job, JobFile
from schemas.contracts.rule_documents import EmbeddingFailureError
from schemas.errors import CollectionNotFoundError, DiskFloorError, NotRecordedError, RagError, UnavailableError
from schemas.giving_way import QUESTIONS
from schemas.records import Vector
from schemas.settings import RetrievalSettings
from schemas.storage.reembedding import recorded_model

log = structlog.get_logger(__name__)

PAUSES_SECONDS = (1, 2, 5, 10, 30, 60, 120, 300)
"""The pauses before a file is tried again whose failure may pass; after the last one it has failed. A service that
fails for everybody has the same pauses."""
COLLECTION_SECONDS = 5
"""The pause before a file is tried again whose collection takes no writes for now."""
TEXT_TRIES = 2
"""The tries after which a file has failed one of whose texts fails alone, while the service embeds others."""
PROGRESS_SECONDS = 1.0

MAX_BEGINNINGS = 10
"""How often a file is begun before it is given up: one that ends the service each time must not do so for ever."""
LONG_CHARACTERS = 10_000
"""The length from which a text is split beside the questions."""

CallerOf = Callable[[Job], Caller]
Split = Callable[[Chunking, Syntax, str], SplitDocument]


class StoppedError(Exception):
    """The work is not to go on: the job was cancelled, nobody wants the work on the file, or the service ends."""


class Outcome(Enum):
    """What the work on a file tells of others: that they can be stored too, nothing, or that all of them would fail by
    the same connection, in the same collection, or in any way."""

    STORED = "stored"
    NOTHING = "nothing"
    CONNECTION_FAILS = "connection fails"
    COLLECTION_WAITS = "collection waits"
    SERVICE_FAILS = "service fails"


@dataclass
class JobWork:
    """Works on files of jobs, in several threads at a time.

    `embed` makes vectors and `split` splits long texts, both beside the questions. `record` is told of each file of
    which so many chunks were written; `check_record` raises RagError when one could not be recorded now, which must
    then not be stored.
    `caller_of` returns for whom a job works, and raises AccessError when its owner may not write any more; it is asked
    before each call of `embed` and before each write. `stopping` is set when the service ends; what is under way is
    then left to the next start. `clock` returns seconds. `recognised` are scans that were read and are not stored yet.
    """

    jobs: StoredJobs
    spool: Spool
    texts: TextCollections
    originals: Originals
    reader: DocumentReader
    settings: RetrievalSettings
    embed: Embed
    split: Split
    caller_of: CallerOf
    stopping: threading.Event
    check_record: Callable[[Job], None]
    record: Callable[[Job, int], None]
    clock: Callable[[], float] = time.monotonic
    vector_cache: VectorCache = field(default_factory=VectorCache)
    recognised: dict[tuple[str, int], Parsed] = field(default_factory=dict)

    def run(self, due: DueFile, embeds: Callable[[], object] = lambda: None) -> tuple[Outcome, float]:
        """Store a file, tell why it failed, or put it aside when the failure may pass, and end its job with the last.
        Return the outcome, and for how many seconds what fails is to be left alone at least. `embeds` is called when
        its connection has embedded some of it.

        Raises StoppedError, and RagError when the database does not answer.
        """
        begun = self.jobs.begin(due)
        if begun is None:
            return Outcome.NOTHING, 0.0
        job, beginnings = begun
        work, key = _FileWork(self, job, job.files[0], embeds, self.clock()), (job.id, due.number)
        if beginnings > MAX_BEGINNINGS:
            sentence = f"The service ended {MAX_BEGINNINGS} times while it worked on this file"
            work.end(FAILED, code=UNREADABLE, message=sentence)
            told = Outcome.NOTHING, 0.0
        else:
            try:
                told = work.store()
            except StoppedError:
                self.jobs.put_aside(job.id, job.files[0])
                self._forget(key)
                raise
        self.jobs.finish(job.id)
        if not self.jobs.is_unfinished(*key):
            self.spool.path(*key).unlink(missing_ok=True)
            self._forget(key)
        return told

    def _forget(self, key: tuple[str, int]) -> None:
        self.vector_cache.forget(key)
        self.recognised.pop(key, None)


@dataclass(slots=True)
class _FileWork:
    """The work on one file, which `file` says how far it is; what changes often is told to the database once a second.
    Why the last try failed stays until this one has ended. It `has_gained` when it embedded what none before it had."""

    of: JobWork
    job: Job
    file: JobFile
    embeds: Callable[[], object]
    told_at: float
    has_gained: bool = False

    def store(self) -> tuple[Outcome, float]:
        try:
            self.check()
            still = partial(self.of.caller_of, self.job)
            with acting_as(still(), still):
                self._ingest_where_it_is()
            return Outcome.STORED, 0.0
        except StoppedError:
            raise
        except RagError as error:
            self.check()  # where it was cancelled meanwhile, its files may be gone
            return self._failed(error)
        except Exception:
            self.check()
            log.exception("a file of a job failed in a way nobody expected", job=self.job.id, file=self.file.name)
            self.end(FAILED, code=RagError.code, message="Internal error")
            return Outcome.NOTHING, 0.0

    def tell(self, **changes: Any) -> None:
        self.file = replace(self.file, **changes)
        self.of.jobs.tell(self.job.id, self.file)
        self.told_at = self.of.clock()

    def end(self, status: str, **changes: Any) -> None:
        """Tell the outcome, which survives a loss of power."""
        ended = replace(self.file, **{"status": status, "code": None, "message": None, **changes})
        self.of.jobs.tell(self.job.id, ended, lasting=True)

    def check(self) -> None:
        # No time is left where the work is unwanted, or what it asked was cut off for that.
        if self.of.stopping.is_set() or not deadlines.seconds_left() or not self.of.jobs.waiting([self.job.id]):
            raise StoppedError

    def _failed(self, error: RagError) -> tuple[Outcome, float]:
        """Put the file aside when the failure may pass, or tell that it has failed."""
        tries = 1 if self.has_gained else self.file.tries + 1
        embedding = isinstance(error, EmbeddingFailureError)
        cause = error.__cause__ if embedding and isinstance(error.__cause__, RagError) else error
        # A connection that has to be changed first does not come back.
        if not isinstance(cause, UnavailableError | DiskFloorError | NotRecordedError):
            self.end(FAILED, code=error.code, message=error.message)
            return Outcome.NOTHING, 0.0
        outcome, seconds = _left_alone(error, cause)
        if outcome is Outcome.COLLECTION_WAITS:  # however long, which is no try: it takes writes again by itself
            tries, pause_seconds = self.file.tries, seconds
        elif tries > len(PAUSES_SECONDS) or (isinstance(error, TextFailedError) and tries >= TEXT_TRIES):
            self.end(FAILED, code=error.code, message=error.message)
            return outcome, seconds
        else:
            pause_seconds = PAUSES_SECONDS[tries - 1]
        log.warning("a file of a job waits", job=self.job.id, file=self.file.name, code=error.code, tries=tries)
        told = replace(self.file, tries=tries, code=error.code, message=error.message)
        self.of.jobs.put_aside(self.job.id, told, seconds=pause_seconds)
        return outcome, seconds

    def _ingest_where_it_is(self) -> None:
        """Store the file in its collection, whatever that is called by now. Where there was none when an upload came,
        it is the one that the first of its files finds or makes. Raises what `_ingest` raises."""
        name, before = self.job.wanted.collection, None
        while (place := self._place(name)) != before:
            before = collection_id, name = place
            self.job = replace(self.job, wanted=replace(self.job.wanted, collection=name))
            try:
                self._ingest(collection_id)
                return
            except CollectionNotFoundError as error:  # renamed meanwhile, unless its name is the same
                failure = error
        raise failure

    def _place(self, name: str) -> tuple[str | None, str]:
        """Return the id of the collection that the file goes into, None while there is none, and what it is called that
        was called `name`."""
        collection_id = self._collection_id()
        if collection_id is None and (found := self.of.texts.id_of(name)) is not None:
            self.of.jobs.follow(self.job.id, found)
            collection_id = self._collection_id()
        return collection_id, name if collection_id is None else self.of.texts.name_now(collection_id, name)

    def _create(self, make: Callable[[], CollectionInfo]) -> CollectionInfo:
        """Make the collection of a job whose first file is to be stored."""
        if self._collection_id() is not None:  # another file made it, and it has gone since
            raise CollectionNotFoundError(self.job.wanted.collection)
        made = make()
        if made.id is not None:
            self.of.jobs.follow(self.job.id, made.id)
        return made

    def _collection_id(self) -> str | None:
        file = self.file if self.file.collection_id else self.of.jobs.file(self.job.id, self.file.number)
        return None if file is None else file.collection_id

    def _ingest(self, collection_id: str | None) -> None:
        """Store the file as its document and tell the outcome. Raises RagError with the reason when that fails."""
        job, file, wanted = self.job, self.file, self.job.wanted
        self.of.check_record(job)
        path = self.of.spool.path(job.id, file.number)
        metadata = {**wanted.metadata, **file.metadata}
        kind = kind_of_file(file.name, lambda: path.open("rb"), file.media_type)
        given = GivenFile(file.source, path, kind, metadata=metadata, tags=wanted.tags)
        writer = self.of.texts.writer(wanted.collection, self._vectors, collection_id, create=self._create)
        if kind.is_records and file.file_id is None:  # a kept file is one document, or none
            self._ingest_records(writer, given, path)
            return
        self.file = replace(file, document_id=document_id(given.source))
        if wanted.on_conflict == SKIP and any(True for _ in writer.documents(given.where)):
            self.end(UNCHANGED, warnings=("A document of this name is stored already, and stays as it is",))
            return
        chunking = chunking_of(self.of.settings, writer.embedding)
        if file.windows is not None:
            chunking = windows_within(chunking, *file.windows)
        done = unchanged(writer, given, chunking)
        if done is None:
            document = source_document(given, self._read(given), chunking=chunking)
            if len(document.text) >= LONG_CHARACTERS:
                document = replace(document, split=partial(self.of.split, chunking, kind.syntax))
            self.check()
            done = ingest_document(writer, self._watched(document), advance=self._advance)
        if file.file_id is not None and not self.of.jobs.is_unfinished(job.id, file.number):
            # Taken back meanwhile, and what was stored by then is deleted already.
            writer.delete(given.where)
            raise StoppedError
        info = writer.collection
        if info is not None and done.chunks:
            self.of.originals.keep(path, info.id or info.name, document_id(given.source), given.digest)
        status = UNCHANGED if done.status == STORED_ALREADY else DONE
        # Unchanged files too: a process that was killed may have stored one without recording it.
        self.of.record(job, 0 if status == UNCHANGED else done.chunks)
        warnings = (*done.warnings, *_warnings_of(info))
        self.end(status, chunks=done.chunks, chunks_done=done.chunks, warnings=warnings)

    def _read(self, given: GivenFile) -> Parsed:
        """Read the file, once for all tries where that takes long. While pages of it are recognised, a warning says
        which one."""

        def on_page(place: int, count: int) -> None:
            self.check()
            QUESTIONS.let_pass()
            self.tell(warnings=(f"Page {place:,} of {count:,} is being recognised",))

        key = self.job.id, self.file.number
        if (read := self.of.recognised.get(key)) is None:
            try:
                read = self.of.reader.read(given.content, given.kind, name=given.name, on_page=on_page)
            finally:
                self.file = replace(self.file, warnings=())
            if read.scanned:
                self.of.recognised[key] = read
        return read

    def _ingest_records(self, writer: CollectionWriter, given: GivenFile, path: Path) -> None:
        """Store the records of the file as a document each, and tell the outcome."""
        size_bytes = given.size_bytes

        def wrote() -> None:
            self.of.vector_cache.forget((self.job.id, self.file.number))
            self.of.jobs.goes_on(self.job.id, self.file.number)

        work = RecordFile(
            writer,
            given,
            keeps=self.job.wanted.on_conflict == SKIP,
            check=self.check,
            wrote=wrote,
            advance=lambda done_bytes: self._advance(done_bytes / size_bytes),
        )
        self.tell(status=EMBEDDING, chunks=count_lines(path))
        try:
            with path.open("rb") as lines:
                work.store(lines)
        finally:  # also of a file that breaks off
            if work.written:
                self.of.record(self.job, work.written)
        status = DONE if work.written else UNCHANGED
        self.end(status, chunks=work.records, chunks_done=work.records, warnings=work.warnings)

    def _vectors(self, embedding: EmbeddingProvider, texts: list[str]) -> Vector:
        ask = partial(embed_or_name, self.of.embed, embedding, check=self.check)
        key = self.job.id, self.file.number
        vectors = self.of.vector_cache.embed(key, embedding, texts, ask, self._gain, tries=self.file.tries)
        QUESTIONS.let_pass()
        return vectors

    def _gain(self) -> None:
        self.has_gained = True
        self.embeds()

    def _advance(self, part: float) -> None:
        """Tell that this part of the chunks, in [0, 1], is embedded."""
        if self.of.clock() - self.told_at >= PROGRESS_SECONDS:
            self.tell(chunks_done=round(part * (self.file.chunks or 0)))

    def _watched(self, document: SourceDocument) -> SourceDocument:
        """Return the document such that it tells how many chunks it has as soon as it is split."""

        def split(text: str) -> SplitDocument:
            QUESTIONS.let_pass()
            made = document.split(text)
            pages = document.metadata.get("pages")
            self.tell(status=EMBEDDING, chunks=len(made.chunks), pages=pages if isinstance(pages, int) else None)
            return made

        return replace(document, split=split)


def _warnings_of(info: CollectionInfo | None) -> tuple[str, ...]:
    """Say of a collection that came to be with embeddings of somebody's own that it is not among those searched."""
    if info is None or recorded_model(info.metadata) is not None:
        return ()
    return (f"Collection '{info.name}' names no embedding model: only a search that names it asks it",)


def _left_alone(error: RagError, cause: RagError) -> tuple[Outcome, float]:
    """Return what is to be left alone after a failure which may pass, and for how many seconds at least."""
    if isinstance(error, EmbeddingFailureError):
        if isinstance(error, TextFailedError):
            return Outcome.NOTHING, 0.0
        return Outcome.CONNECTION_FAILS, min(cause.retry_after_seconds or 0, PAUSES_SECONDS[-1])
    if "collection" in cause.details:
        return Outcome.COLLECTION_WAITS, COLLECTION_SECONDS
    return (Outcome.NOTHING if isinstance(cause, WorkerEndedError) else Outcome.SERVICE_FAILS), 0.0
