"""Store the records of JSONL files: each line is one document, under its own id if it has one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from retrieval.ingest.collection_writer import BATCH_DOCUMENTS, CollectionWriter, Stored, batches
from retrieval.ingest.drafts import Draft, draft_of_record, place_of
from retrieval.ingest.embedding_texts import NOT_EMBEDDED, TextNotEmbeddedError
from retrieval.ingest.sources import SourceError, SourceFile, read_records
from schemas.errors import InvalidInputError


@dataclass(slots=True)
class LoadReport:
    """The outcome for records: `chunks` that are stored, now or before; skipped: repeated lines and lines without text;
    indexed: False while vector queries do not see all of it yet."""

    chunks: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    skipped: int = 0
    errors: list[SourceError] = field(default_factory=list)
    indexed: bool = True


class RecordLoader:
    """Brings a collection up to date with files of records. Raises what the writer raises when the service fails."""

    def __init__(self, writer: CollectionWriter) -> None:
        self.report = LoadReport()
        self._writer = writer
        self._first_use: dict[str, str] = {}  # id of a record → the place where it was first used

    def load(self, file: SourceFile, source: str, name: str, advance: Callable[[int], None]) -> None:
        """Store the records of a file. A bad line, and one that cannot be embedded while others can, is reported and
        does not stop the rest. `name` is what the ids of records without one are made from, and `advance` is called
        with the bytes that are read."""
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
        self.report.errors.append(SourceError(source, line, message, code))
