"""Files of records (JSONL) in jobs: each line becomes a document of its own, and a file is never whole in memory.

Such a file is gone through from its beginning, after a kill too: what is stored already is passed over.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from retrieval.ingest.collection_writer import BATCH_DOCUMENTS, CollectionWriter
from retrieval.ingest.drafts import Draft, draft_of_record, place_of
from retrieval.ingest.embedding_texts import NOT_EMBEDDED, TextNotEmbeddedError
from retrieval.ingest.files import GivenFile, merged_tags
from retrieval.ingest.identity import record_id
from retrieval.ingest.records import BadLine, Record, read_records
from retrieval.reading import EMPTY, UnreadableError
from schemas.errors import InvalidInputError

PIECE_BYTES = 1 << 20
BATCH_BYTES = 8 << 20
"""The length of the lines after which a batch is stored even if it is of few."""
MAX_NAMED = 100
"""How many bad lines of a file are named one by one."""


def count_lines(path: Path) -> int:
    """Return how many lines a file has. Raises InvalidInputError when it cannot be read."""
    try:
        with path.open("rb") as opened:
            return 1 + sum(piece.count(b"\n") for piece in iter(partial(opened.read, PIECE_BYTES), b""))
    except OSError as error:
        raise InvalidInputError(f"cannot be read: {error.strerror}") from error


@dataclass(slots=True)
class RecordFile:
    """The work on one file. `keeps` leaves stored documents as they are; `check` is called before each batch is stored,
    `wrote` when some of it had to be written, and `advance` with the bytes of the file that are through.

    What became of its lines may be read at any time. records: those that are stored, now or before; written: those of
    them that had changed; bad_lines: those that could not be stored, of which the first are `named`.
    """

    writer: CollectionWriter
    file: GivenFile
    keeps: bool
    check: Callable[[], None]
    wrote: Callable[[], None]
    advance: Callable[[int], None]
    records: int = 0
    written: int = 0
    bad_lines: int = 0
    named: list[tuple[int, str]] = field(default_factory=list)

    @property
    def warnings(self) -> tuple[str, ...]:
        more = self.bad_lines - len(self.named)
        named = [f"line {line}: {message}" for line, message in sorted(self.named)]
        return (*named, *([f"{more:,} more lines could not be stored"] if more else []))

    def store(self, lines: BinaryIO) -> None:
        """Store the records of the open file whose documents are not stored as they are. A bad line, or one with a text
        that cannot be embedded while others can, is refused and does not stop the rest. A record without an id that is
        there twice counts once.

        Raises UnreadableError when there is none, and what the writer raises when the embedding service or the store
        fails.
        """
        # The ids that are used so far, in a file of SQLite's own as soon as they are many.
        with closing(sqlite3.connect("")) as used:
            used.execute("CREATE TABLE used (id TEXT PRIMARY KEY, line INTEGER) WITHOUT ROWID")
            for batch in _batches(read_records(lines)):
                self._store([each for each in batch if isinstance(each, Record) and self._is_first(each, used)])
                for each in batch:
                    if isinstance(each, BadLine):
                        self._refuse(each.line, each.message)
                self.advance(lines.tell())
        if not self.records:
            if self.bad_lines:
                raise UnreadableError(f"has no line that can be stored; {self.warnings[0]}")
            raise UnreadableError("contains no text", code=EMPTY)

    def _refuse(self, line: int, message: str) -> None:
        self.bad_lines += 1
        if len(self.named) < MAX_NAMED:
            self.named.append((line, message))

    def _is_first(self, record: Record, used: sqlite3.Connection) -> bool:
        """Return whether a record becomes a document: it has a text, and an id of its own."""
        draft = self._draft(record)
        if draft is None:
            return False
        if used.execute("INSERT OR IGNORE INTO used VALUES (?, ?)", (draft.id, record.line)).rowcount:
            return True
        if record.id:
            [line] = used.execute("SELECT line FROM used WHERE id = ?", (draft.id,)).fetchone()
            self._refuse(record.line, f"id '{record.id}' was already used by line {line}")
        return False

    def _store(self, records: Sequence[Record]) -> None:
        """Write records in one request. Those that cannot be embedded are left out; a request that is refused is halved
        until only the faulty ones are left out."""
        if not records:
            return
        self.check()
        try:
            written = self.writer.following(partial(self._write, records))
        except NOT_EMBEDDED as error:
            text = error.text if isinstance(error, TextNotEmbeddedError) else None
            faulty = 0 if len(records) == 1 else place_of(text, self._drafts(records))
            if faulty is not None:
                self._refuse(records[faulty].line, error.message)
            middle = len(records) // 2 if faulty is None else faulty
            for part in (records[:middle], records[middle + (faulty is not None) :]):
                self._store(part)
            return
        self.records += len(records)
        self.written += written
        if written:
            self.wrote()

    def _write(self, records: Sequence[Record]) -> int:
        """Write the records that have changed, and return their number."""
        drafts = self._drafts(records)
        # Loads with a prefix of their own made the ids of the whole source.
        earlier = {
            draft.id: record_id(self.file.source, each.title, each.text)
            for each, draft in zip(records, drafts, strict=True)
            if not each.id
        }
        stored = self.writer.stored_by_id([*(each.id for each in drafts), *earlier.values()])
        drafts = [replace(each, id=earlier[each.id]) if earlier.get(each.id, "") in stored else each for each in drafts]
        changed = [
            each for each in drafts if not (each.id in stored if self.keeps else each.is_stored_as(stored.get(each.id)))
        ]
        if changed:
            self.writer.write(changed, self.writer.vectors(changed, stored))
        return len(changed)

    def _drafts(self, records: Sequence[Record]) -> list[Draft]:
        """Return the documents of records, made anew each time: they tell the model, which a re-embedding changes."""
        return [draft for each in records if (draft := self._draft(each))]

    def _draft(self, record: Record) -> Draft | None:
        given = self.file
        if given.metadata or given.tags:
            metadata = {**record.metadata, **given.metadata}
            tags = merged_tags(merged_tags(given.tags, given.metadata), record.metadata)
            record = replace(record, metadata=metadata | ({"tags": tags} if tags else {}))
        path = given.source.partition("/")[2] or given.source
        return draft_of_record(record, given.source, path, model=self.writer.embedding.model)


def _batches(lines: Iterable[Record | BadLine]) -> Iterator[list[Record | BadLine]]:
    batch: list[Record | BadLine] = []
    begun_bytes = 0
    for each in lines:
        batch.append(each)
        if len(batch) == BATCH_DOCUMENTS or each.end_bytes - begun_bytes >= BATCH_BYTES:
            yield batch
            batch, begun_bytes = [], each.end_bytes
    if batch:
        yield batch
