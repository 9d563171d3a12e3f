"""Documents and records as they are stored: their ids, texts and metadata before they are embedded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from uuid import UUID, uuid5

import orjson

from retrieval.chunking import Chunk, SplitDocument
from retrieval.ingest.sources import Record
from schemas.records import Document, Metadata, Vector
from schemas.where import And, Equals, Exists

_IDS = UUID("6f2ac9a4-51a5-5d0e-8b0f-1f3c0f6a9e57")  # must never change: stored ids are made from it
_OF_THE_WHOLE = ("chunk_count", "created_at", "updated_at", "embedding_model", "hash")
"""Metadata of chunks beside their content: a change of these alone is no reason to write a chunk again."""
FIRST_CHUNKS = And((Equals("chunk_index", 0), Exists("document_id")))
"""Selects one chunk of each ingested document, the one with the metadata of the whole."""
TITLE_IS_FILE_NAME = "title_is_file_name"
"""Metadata of chunks whose document has only its file's name as a title: it is shown, but is not a heading."""
INTERNAL = (
    "content_hash",
    "hash",
    "chunk_count",
    "document_id",
    "chunk_index",
    "start_line",
    "section_id",
    TITLE_IS_FILE_NAME,
)
"""Metadata that ingestion keeps for itself, or that has a field of its own in answers."""
_OWN = (*_OF_THE_WHOLE, TITLE_IS_FILE_NAME)

Splitter = Callable[[str], SplitDocument]


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document before it is split.

    `title` is a heading for the model that reads the text, unless `title_is_file_name`. `metadata` goes to every chunk,
    except for names that ingestion sets itself. `hash` is the caller's hash of the content, if it has one. Section ids
    begin with `sections`, by default with the document's id.
    """

    id: str
    title: str
    text: str
    metadata: Metadata
    split: Splitter
    hash: str | None = None
    sections: str | None = None
    title_is_file_name: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A document to be stored. embedding: the one its source brought, None to make one; line: of a record."""

    id: str
    text: str
    metadata: Metadata
    embedding: Vector | None = None
    line: int | None = None

    def is_stored_as(self, stored: Document | None) -> bool:
        """Return whether the store has all of this; metadata that others added there do not count."""
        return (
            stored is not None
            and stored.text == self.text
            and stored.metadata.get("content_hash") == self.metadata["content_hash"]
        )


def document_id(source: str) -> str:
    """Make the id of a document without one of its own from its source's name for it."""
    return str(uuid5(_IDS, source))


def chunk_id(document: str, chunk_index: int) -> str:
    """Make a chunk's id: always the same for the same document and position."""
    return str(uuid5(_IDS, f"{document}\n{chunk_index}"))


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
    return drafts, split.warnings


def draft_of_record(record: Record, source: str, *, model: str) -> Draft | None:
    """Return the document of a JSONL record, or None when it has neither text nor title.

    It is not split: whoever wrote the record decided what a document is. A record without an id gets one made from its
    content. Its `source` is always the file, whatever its metadata say: deleting the file's documents selects by it.
    """
    text = record.text if record.text.strip() else record.title
    if not text:
        return None
    metadata = record.metadata | ({"title": record.title} if record.title else {}) | {"source": source}
    origin = model if record.embedding is None else hashlib.sha256(record.embedding.tobytes()).hexdigest()
    return Draft(
        id=record.id or str(uuid5(_IDS, f"{source}\n{record.title}\n{record.text}")),
        text=text,
        metadata=metadata | {"content_hash": _content_hash(text, metadata, origin)},
        embedding=record.embedding,
        line=record.line,
    )


def _draft(document: SourceDocument, chunk: Chunk, model: str) -> Draft:
    prefix = document.sections or document.id
    metadata = {name: value for name, value in document.metadata.items() if name not in _OWN} | {
        "document_id": document.id,
        "title": document.title,
        "section": chunk.section,
        "section_id": f"{prefix}#{chunk.section_id}" if chunk.section_id else prefix,
        "chunk_index": chunk.chunk_index,
        "start_line": chunk.start_line,
    }
    if document.title_is_file_name:
        metadata[TITLE_IS_FILE_NAME] = True
    return Draft(
        id=chunk_id(document.id, chunk.chunk_index),
        text=chunk.text,
        metadata=metadata | {"content_hash": _content_hash(chunk.text, metadata, model)},
    )


def _content_hash(text: str, metadata: Metadata, origin: str) -> str:
    """Hash everything that is written and the origin of the embedding: with equal hashes no second write is needed."""
    return hashlib.sha256(orjson.dumps([origin, text, metadata], option=orjson.OPT_SORT_KEYS)).hexdigest()
