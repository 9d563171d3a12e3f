"""Load files into a collection: read, split, embed what is new, store what changed. A second run changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from providers.base import RagProvider
from providers.embeddings.base import EmbeddingProvider
from retrieval.chunking import (
    DEFAULT_MAX_TOKENS,
    MarkdownDocument,
    SplitDocument,
    markdown_title,
    split_markdown,
    split_text,
)
from retrieval.ingest.collection_writer import BATCH_DOCUMENTS, CollectionWriter, Stored, batches
from retrieval.ingest.drafts import (
    Draft,
    SourceDocument,
    Splitter,
    document_id,
    draft_of_record,
)
from retrieval.ingest.ingestion import Ingested, ingest_document
from retrieval.ingest.sources import (
    SourceError,
    SourceFile,
    SourceKind,
    find_sources,
    read_records,
    read_text,
)
from schemas.errors import InvalidInputError
from schemas.names import check_collection_name
from schemas.where import Equals

Profile = Callable[[SourceKind], Splitter]
"""Returns the splitter for files of a kind."""


@dataclass(slots=True)
class LoadReport:
    """The outcome of a load. sources: files read; chunks: documents made of them; skipped: files without text, repeated
    lines and lines without text; indexed: False while vector queries do not see all of it yet."""

    sources: int = 0
    chunks: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    skipped: int = 0
    errors: list[SourceError] = field(default_factory=list)
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
    on_progress: Callable[[LoadProgress], None] = lambda progress: None,
    source_prefix: str = "",
    profile: Profile | None = None,
    follow_links: bool = False,
) -> LoadReport:
    """Bring `collection` up to date with the files at `path`; `source_prefix` is put before each source's name.

    Markdown and text files are split, by their sections when `profile` is None, and a changed file's chunks are swapped
    in one request. A JSONL record is one document, under its own id if it has one. Bad files, lines and documents are
    reported and do not stop the rest. Raises ConflictError, before anything is embedded, when the collection has
    another embedding model. A failing service stops the load with its error; the next run continues from there.
    """
    check_collection_name(collection)
    files = find_sources(path, follow_links=follow_links)
    total_bytes = sum(file.size_bytes for file in files)
    loader = _Loader(CollectionWriter(provider, collection, embedding), profile or by_sections())
    done_bytes = 0
    for file in files:
        source = source_prefix + file.source

        def advance(file_bytes: int, source: str = source, before: int = done_bytes) -> None:
            on_progress(LoadProgress(source, before + file_bytes, total_bytes, loader.report.chunks))

        loader.load_file(file, source, advance)
        advance(file.size_bytes)
        done_bytes += file.size_bytes
    return loader.report


def by_sections(max_tokens: int = DEFAULT_MAX_TOKENS) -> Profile:
    """Split Markdown at its headings, and texts between paragraphs, into chunks of at most `max_tokens`."""

    def split_read(text: str | MarkdownDocument) -> SplitDocument:
        document = MarkdownDocument.of(text)
        return SplitDocument(split_markdown(document, max_tokens=max_tokens), document.warnings)

    def splitter(kind: SourceKind) -> Splitter:
        if kind is SourceKind.MARKDOWN:
            return split_read
        return lambda text: SplitDocument(split_text(text, max_tokens=max_tokens), [])

    return splitter


def document_of(file: SourceFile, source: str, profile: Profile) -> SourceDocument:
    """Return the document of a Markdown or text file. Raises InvalidInputError when it cannot be read."""
    text = read_text(file)
    title = markdown_title(text) if file.kind is SourceKind.MARKDOWN else None
    return SourceDocument(
        id=document_id(source),
        title=title or file.path.stem,
        text=text,
        metadata={"source": source},
        split=profile(file.kind),
        sections=source,
        title_is_file_name=not title,
    )


class _Loader:
    def __init__(self, writer: CollectionWriter, profile: Profile) -> None:
        self.report = LoadReport()
        self._writer = writer
        self._profile = profile
        self._first_use: dict[str, str] = {}  # id of a record → the place where it was first used

    def load_file(self, file: SourceFile, source: str, advance: Callable[[int], None]) -> None:
        self.report.sources += 1
        if file.kind is SourceKind.JSONL:
            self._load_records(file, source, advance)
            return
        try:
            done = ingest_document(
                self._writer,
                document_of(file, source, self._profile),
                replaces=Equals("source", source),
                advance=lambda part: advance(int(part * file.size_bytes)),
            )
        except InvalidInputError as error:
            self._refuse(source, None, error.message)
        else:
            self._count(done)

    def _count(self, done: Ingested) -> None:
        self.report.chunks += done.chunks
        self.report.skipped += not done.chunks
        self.report.created += done.created
        self.report.updated += done.updated
        self.report.unchanged += done.unchanged
        self.report.deleted += done.deleted
        self.report.indexed &= done.indexed

    def _load_records(self, file: SourceFile, source: str, advance: Callable[[int], None]) -> None:
        for batch in batches(read_records(file), BATCH_DOCUMENTS):
            drafts: list[Draft] = []
            end_bytes = 0
            for record in batch:
                if isinstance(record, SourceError):
                    self._refuse(source, record.line, record.message)
                    continue
                end_bytes = record.end_bytes
                draft = draft_of_record(record, source, model=self._writer.embedding.model)
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
        self.report.chunks += len(drafts)
        self.report.unchanged += len(drafts) - len(changed)
        if changed:
            self._write_records(source, changed, stored)

    def _write_records(self, source: str, drafts: list[Draft], stored: Stored) -> None:
        """Write the records in one request; when it is refused, halve it until only the faulty ones are left out."""
        try:
            self.report.indexed &= self._writer.write(drafts, self._writer.vectors(drafts, stored))
        except InvalidInputError as error:
            if len(drafts) == 1:
                self._refuse(source, drafts[0].line, error.message)
                return
            middle = len(drafts) // 2
            self._write_records(source, drafts[:middle], stored)
            self._write_records(source, drafts[middle:], stored)
            return
        known = sum(draft.id in stored for draft in drafts)
        self.report.created += len(drafts) - known
        self.report.updated += known

    def _refuse(self, source: str, line: int | None, message: str) -> None:
        self.report.errors.append(SourceError(source, line, message))
