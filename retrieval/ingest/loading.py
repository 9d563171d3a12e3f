"""Load files into a collection: read, split, embed what is new, store what changed. A second run changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from providers.base import RagProvider
from providers.embeddings.base import EmbeddingProvider
from retrieval.ingest.bounds import MAX_FILE_MB
from retrieval.ingest.collection_writer import BATCH_DOCUMENTS, CollectionWriter, Stored, batches
from retrieval.ingest.drafts import Draft, draft_of_record, place_of
from retrieval.ingest.embedding_texts import NOT_EMBEDDED, TextNotEmbeddedError
from retrieval.ingest.files import GivenFile, ingest_file
from retrieval.ingest.identity import same_file
from retrieval.ingest.ingestion import Ingested
from retrieval.ingest.profiles import Chunking
from retrieval.ingest.sources import (
    NO_ERRORS,
    PassedOver,
    SourceError,
    SourceFile,
    find_sources,
    read_records,
)
from retrieval.reading import DocumentReader
from retrieval.reading.read_document import EMPTY
from schemas.errors import InvalidInputError
from schemas.names import check_collection_name


@dataclass(slots=True)
class LoadReport:
    """The outcome of a load. sources: files that are stored, now or before, with these chunks; skipped: repeated lines
    and lines without text; indexed: False while vector queries do not see all of it yet."""

    sources: int = 0
    chunks: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    skipped: int = 0
    errors: list[SourceError] = field(default_factory=list)
    passed_over: list[PassedOver] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    indexed: bool = True

    @property
    def changed(self) -> bool:
        return bool(self.created or self.updated or self.deleted)


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The progress of a load, in bytes of all files and in documents."""

    source: str
    done_bytes: int
    total_bytes: int
    chunks: int


def load(
    path: Path,
    *,
    provider: RagProvider,
    collection: str,
    embedding: EmbeddingProvider,
    chunking: Chunking,
    reader: DocumentReader,
    on_progress: Callable[[LoadProgress], None] = lambda progress: None,
    source_prefix: str | None = None,
    max_file_mb: int = MAX_FILE_MB,
    follow_links: bool = False,
) -> LoadReport:
    """Bring `collection` up to date with the files at `path`.

    A file's source is `<folder>/<path below it>`; a `source_prefix` takes the place of the folder's name, an empty one
    of the folder's name and its slash. A changed file's chunks are swapped in one request. A JSONL record is one
    document, under its own id if it has one. Bad files, lines and documents are reported and do not stop the rest, and
    so are those with a text that cannot be embedded while others can. Raises ConflictError, before anything is
    embedded, when the collection has another embedding model. A failing service stops the load with its error; the next
    run continues from there.
    """
    check_collection_name(collection, field="collection")
    found = find_sources(path, follow_links=follow_links)
    folder = found.folder if source_prefix is None else source_prefix.rstrip("/")

    def source_of(path_below: str) -> str:
        return f"{folder}/{path_below}" if folder else path_below

    total_bytes = sum(file.size_bytes for file in found.files)
    loader = _Loader(CollectionWriter(provider, collection, lambda info: embedding), reader, chunking, max_file_mb)
    loader.report.passed_over += [replace(each, path=source_of(each.path)) for each in found.passed_over]
    loader.report.errors += [replace(each, source=source_of(each.source)) for each in found.errors]
    done_bytes = 0
    for file in found.files:
        source = source_of(file.path_below)
        earlier = (source_prefix or "") + file.path_below

        def advance(file_bytes: int, source: str = source, before: int = done_bytes) -> None:
            on_progress(LoadProgress(source, before + file_bytes, total_bytes, loader.report.chunks))

        loader.load_file(file, source, earlier, advance)
        advance(file.size_bytes)
        done_bytes += file.size_bytes
    return loader.report


class _Loader:
    def __init__(self, writer: CollectionWriter, reader: DocumentReader, chunking: Chunking, max_file_mb: int) -> None:
        self.report = LoadReport()
        self._writer = writer
        self._reader = reader
        self._chunking = chunking
        self._max_file_mb = max_file_mb
        self._first_use: dict[str, str] = {}  # id of a record → the place where it was first used

    def load_file(self, file: SourceFile, source: str, earlier: str, advance: Callable[[int], None]) -> None:
        """Load a file; `earlier` is the source that releases before 0.3 gave it."""
        chunks_before = self.report.chunks
        if file.kind.is_records:
            self._load_records(file, source, earlier, advance)
        else:
            self._load_document(file, source, advance)
        self.report.sources += self.report.chunks > chunks_before

    def _load_document(self, file: SourceFile, source: str, advance: Callable[[int], None]) -> None:
        try:
            done = ingest_file(
                self._writer,
                GivenFile(source, file.read(self._max_file_mb), file.kind),
                reader=self._reader,
                chunking=self._chunking,
                advance=lambda part: advance(int(part * file.size_bytes)),
            )
        except NOT_EMBEDDED as error:
            if error.code == EMPTY:
                where = same_file(source)
                self.report.deleted += len(self._writer.stored(where))
                self._writer.delete(where)
            self._refuse(source, None, error.message, error.code)
        else:
            self.report.warnings += [f"{source}: {warning}" for warning in done.warnings]
            self._count(done)

    def _count(self, done: Ingested) -> None:
        self.report.chunks += done.chunks
        self.report.created += done.created
        self.report.updated += done.updated
        self.report.unchanged += done.unchanged
        self.report.deleted += done.deleted
        self.report.indexed &= done.indexed

    def _load_records(self, file: SourceFile, source: str, name: str, advance: Callable[[int], None]) -> None:
        for batch in batches(read_records(file, source), BATCH_DOCUMENTS):
            drafts: list[Draft] = []
            end_bytes = 0
            for record in batch:
                if isinstance(record, SourceError):
                    self._refuse(source, record.line, record.message, record.code)
                    continue
                end_bytes = record.end_bytes
                draft = draft_of_record(record, source, name, model=self._writer.embedding.model)
                first_use = self._first_use.setdefault(draft.id, f"{source}:{record.line}") if draft else ""
                if draft and first_use == f"{source}:{record.line}":
                    drafts.append(draft)
                elif draft and record.id:
                    self._refuse(source, record.line, f"id '{record.id}' was already used by {first_use}")
                else:
                    self.report.skipped += 1
            if drafts:
                self._store_records(source, drafts)
            advance(end_bytes)

    def _store_records(self, source: str, drafts: list[Draft]) -> None:
        stored = self._writer.stored_by_id([draft.id for draft in drafts])
        changed = [draft for draft in drafts if not draft.is_stored_as(stored.get(draft.id))]
        self.report.chunks += len(drafts) - len(changed)
        self.report.unchanged += len(drafts) - len(changed)
        if changed:
            self._write_records(source, changed, stored)

    def _write_records(self, source: str, drafts: list[Draft], stored: Stored) -> None:
        """Write the records in one request; leave out those that cannot be embedded, and when it is refused, halve
        it until only the faulty ones are left out."""
        try:
            self.report.indexed &= self._writer.write(drafts, self._writer.vectors(drafts, stored))
        except NOT_EMBEDDED as error:
            faulty = place_of(error.text, drafts) if isinstance(error, TextNotEmbeddedError) else None
            if len(drafts) == 1:
                faulty = 0
            if faulty is not None:
                self._refuse(source, drafts[faulty].line, error.message, error.code)
            middle = len(drafts) // 2 if faulty is None else faulty
            for part in (drafts[:middle], drafts[middle + (faulty is not None) :]):
                if part:
                    self._write_records(source, part, stored)
            return
        known = sum(draft.id in stored for draft in drafts)
        self.report.chunks += len(drafts)
        self.report.created += len(drafts) - known
        self.report.updated += known

    def _refuse(self, source: str, line: int | None, message: str, code: str = InvalidInputError.code) -> None:
        if code in NO_ERRORS:
            self.report.passed_over.append(PassedOver(source, code, message))
        else:
            self.report.errors.append(SourceError(source, line, message, code))
