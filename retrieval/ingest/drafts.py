"""Documents and records as they are stored: their ids, texts and metadata before they are embedded."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import PurePosixPath

import orjson

from retrieval.chunking import Chunk, SplitDocument
from retrieval.ingest.identity import chunk_id, record_id
from retrieval.ingest.records import Record
from retrieval.parsing.child import PARSERS
from schemas.metadata import set_apart
from schemas.records import Document, Metadata, Vector
from schemas.where import And, Equals, Exists, Not, Where

KIND = "kind"
"""The kind of file that a chunk's document is of, by the table of `retrieval.reading.kinds`."""
FIRST_CHUNKS = And((Equals("chunk_index", 0), Exists("document_id")))
"""Selects one chunk of each ingested document, the one with the metadata of the whole."""
WHOLE = Not(Exists("document_id"))
"""Selects the documents that were stored in one piece, as records are."""
TITLE_IS_FILE_NAME = "title_is_file_name"
"""Metadata of chunks whose document has only its file's name as a title: it is shown, but is not a heading."""
INTERNAL = (
    "content_hash",
    "hash",
    "chunk_count",
    "chunking",
    "given",
    "bytes",
    "document_id",
    "chunk_index",
    "start_line",
    "section_id",
    TITLE_IS_FILE_NAME,
)
"""Metadata that ingestion keeps for itself, or that has a field of its own in answers."""
FIRST_CHARACTERS = 60
"""The length of the beginning of a chunk that is told with its failure."""
_OWN = (
    *("chunk_count", "created_at", "updated_at", "embedding_model", "hash", "chunking", "given", "bytes"),
    TITLE_IS_FILE_NAME,
    "content_hash",
)
"""Metadata that only ingestion sets: the first are of the whole, in its first chunk."""

Splitter = Callable[[str], SplitDocument]
Marks = Sequence[tuple[int, Metadata]]
"""What holds from a line of a text on, counted from 1, ascending."""


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document before it is split.

    `title` is a heading for the model that reads the text, unless `title_is_file_name`. `metadata` goes to every chunk,
    names that ingestion sets itself as `set_apart` has them. `hash` is the caller's hash of the content, if it has one.
    Section ids begin with `sections`, by default with the document's id. `kind` is that of a file, or as which a text
    is read; `marks` say on which page, sheet or slide lines are, and `warnings` are those of reading it.

    The document takes the place of the chunks that `replaces` selects, by default those with its id. Of a file,
    `chunking` says how it is split and `given` what was given with it: unlike a text, a file of the same `hash` is
    unchanged only if these are the same too. `size_bytes` is how large the file or the text was.
    """

    id: str
    title: str
    text: str
    metadata: Metadata
    split: Splitter
    hash: str | None = None
    sections: str | None = None
    title_is_file_name: bool = False
    kind: str = ""
    marks: Marks = ()
    warnings: Sequence[str] = ()
    replaces: Where | None = None
    chunking: str | None = None
    given: str = ""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A document to be stored. embedding: the one its source brought, None to make one."""

    id: str
    text: str
    metadata: Metadata
    embedding: Vector | None = None

    def is_stored_as(self, stored: Document | None) -> bool:
        """Return whether the store has all of this; metadata that others added there do not count."""
        return (
            stored is not None
            and stored.text == self.text
            and stored.metadata.get("content_hash") == self.metadata["content_hash"]
        )


def is_file_name(title: str, path: str) -> bool:
    """Return whether a title is only the name of the file at a path, with or without its suffix."""
    file = PurePosixPath(path)
    return bool(file.suffix) and title in (file.name, file.stem)


def text_to_embed(text: str, metadata: Metadata) -> str:
    """Return what the model reads of a document: its heading path or title, then its text.

    The heading is left out when the text begins with it. It is needed because a section's later pieces do not contain
    it, and because BEIR's scores are of title and text. The name of a file does not count as a title.
    """
    return text_with_heading(text, {**metadata, "title": None} if metadata.get(TITLE_IS_FILE_NAME) else metadata)


def text_with_heading(text: str, metadata: Metadata) -> str:
    """Put the heading path, else the title, above a text that does not begin with it."""
    heading = metadata.get("section") or metadata.get("title")
    if not isinstance(heading, str) or text.lstrip("# ").startswith(heading):
        return text
    return f"{heading}\n\n{text}"


def named_chunk(text: str, place: int | None = None) -> str:
    """Return what a sentence calls a chunk: its number, from 1, where its place, from 0, is known, and how it
    begins."""
    return f"{'A text' if place is None else f'Chunk {place + 1}'} ({first_words(text)})"


def first_words(text: str) -> str:
    """Return the first words of a text, in quotation marks."""
    words = " ".join(text.split())
    return f"“{words}”" if len(words) <= FIRST_CHARACTERS else f"“{words[:FIRST_CHARACTERS].rstrip()}…”"


def place_of(text: str | None, drafts: Sequence[Draft]) -> int | None:
    """Return the place of the first draft of which the model reads this text."""
    return next((at for at, each in enumerate(drafts) if text_to_embed(each.text, each.metadata) == text), None)


def drafts_of(document: SourceDocument, model: str) -> tuple[list[Draft], Sequence[str]]:
    """Return (the chunks, warnings). The first chunk has the metadata of the whole: `chunk_count` and `hash`."""
    split = document.split(document.text)
    drafts = [_draft(document, chunk, model) for chunk in split.chunks]
    if drafts:
        drafts[0].metadata.update(
            chunk_count=len(drafts),
            hash=document.hash or hashlib.sha256(document.text.encode()).hexdigest(),
            embedding_model=model,
        )
        if document.chunking is not None:
            drafts[0].metadata.update(chunking=document.chunking, given=document.given)
        if document.size_bytes is not None:
            drafts[0].metadata["bytes"] = document.size_bytes
    return drafts, [*document.warnings, *split.warnings]


def draft_of_record(record: Record, source: str, name: str, *, model: str) -> Draft | None:
    """Return the document of a JSONL record, or None when it has neither text nor title.

    It is not split: whoever wrote the record decided what a document is. A record without an id gets one made from its
    content and the file's `name`. Its `source` is always the file; what its metadata call so is `set_apart`.
    """
    text = record.text if record.text.strip() else record.title
    if not text:
        return None
    known = ({"title": record.title} if record.title else {}) | {"source": source}
    metadata = set_apart(record.metadata, known, ("content_hash",))
    origin = model if record.embedding is None else hashlib.sha256(record.embedding.tobytes()).hexdigest()
    return Draft(
        id=record.id or record_id(name, record.title, record.text),
        text=text,
        metadata=metadata | {"content_hash": _content_hash(text, metadata, origin)},
        embedding=record.embedding,
    )


def _draft(document: SourceDocument, chunk: Chunk, model: str) -> Draft:
    prefix = document.sections or document.id
    known: Metadata = {
        "document_id": document.id,
        "title": document.title,
        "section": chunk.section,
        "section_id": f"{prefix}#{chunk.section_id}" if chunk.section_id else prefix,
        "chunk_index": chunk.chunk_index,
        **_place_of(document.marks, chunk),
    }
    if document.kind not in PARSERS:  # of which lines are not those of the file
        known["start_line"] = chunk.start_line
    if document.title_is_file_name:
        known[TITLE_IS_FILE_NAME] = True
    if document.kind:
        known[KIND] = document.kind
    metadata = set_apart(document.metadata, known, _OWN)
    return Draft(
        id=chunk_id(document.id, chunk.chunk_index),
        text=chunk.text,
        metadata=metadata | {"content_hash": _content_hash(chunk.text, metadata, model)},
    )


def _place_of(marks: Marks, chunk: Chunk) -> Metadata:
    """Return the page where a chunk begins, its `last_page` when that is another, and `ocr` when some was recognised;
    else the sheet or slide of its text: headings above it may be those of an empty one."""
    first = bisect_right(marks, chunk.start_line, key=itemgetter(0))
    last = bisect_right(marks, chunk.start_line + chunk.text.count("\n"), key=itemgetter(0))
    held = [mark for _, mark in marks[max(0, first - 1) : last]]
    place = dict(held[0]) if first else {}
    if "page" not in place:
        text = bisect_right(marks, chunk.text_line, key=itemgetter(0))
        return marks[text - 1][1] if text else {}
    if any(mark.get("ocr") for mark in held):
        place["ocr"] = True
    last_page = held[-1].get("page")
    return place if last_page == place["page"] else {**place, "last_page": last_page}


def _content_hash(text: str, metadata: Metadata, origin: str) -> str:
    """Hash everything that is written and the origin of the embedding: with equal hashes no second write is needed."""
    return hashlib.sha256(orjson.dumps([origin, text, metadata], option=orjson.OPT_SORT_KEYS)).hexdigest()
