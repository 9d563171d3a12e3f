"""What documents a source makes: their ids, texts and metadata, before they are embedded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

import orjson

from retrieval.chunking import Chunk, markdown_title, split_markdown, split_text
from retrieval.sources import Record, SourceFile, SourceKind, read_text
from schemas.records import Metadata, Vector

_IDS = UUID("6f2ac9a4-51a5-5d0e-8b0f-1f3c0f6a9e57")  # never changes: stored ids are made from it


@dataclass(frozen=True, slots=True)
class Draft:
    """A document to be stored. embedding: what its source brought, None when it is to be made; line: of a record."""

    id: str
    text: str
    metadata: Metadata
    embedding: Vector | None = None
    line: int | None = None

    def is_stored_as(self, stored: dict[str, Any] | None) -> bool:
        """Whether the store has all of this; metadata that others added there does not count."""
        return (
            stored is not None
            and stored["text"] == self.text
            and stored["metadata"].get("content_hash") == self.metadata["content_hash"]
        )


def text_to_embed(text: str, metadata: Metadata) -> str:
    """What the model reads of a document: its heading path, else its title, then its text. A section's later pieces do
    not contain their heading, and BEIR's scores are of title and text."""
    heading = metadata.get("section") or metadata.get("title")
    return f"{heading}\n\n{text}" if isinstance(heading, str) and heading != text else text


def drafts_of_file(file: SourceFile, source: str, *, model: str, max_tokens: int) -> list[Draft]:
    """The chunks of a Markdown or text file; InvalidInputError when it cannot be read."""
    text = read_text(file)
    if file.kind is SourceKind.MARKDOWN:
        title = markdown_title(text) or file.path.stem
        chunks = split_markdown(text, max_tokens=max_tokens)
    else:
        title = file.path.stem
        chunks = split_text(text, max_tokens=max_tokens)
    return [_draft_of_chunk(chunk, source, title, model) for chunk in chunks]


def draft_of_record(record: Record, source: str, *, model: str) -> Draft | None:
    """The document of a JSONL record, not split: who wrote the record decided what a document is. A record without id
    gets one of its content. None when there is no text and no title."""
    text = record.text if record.text.strip() else record.title
    if not text:
        return None
    metadata = {"source": source} | ({"title": record.title} if record.title else {}) | record.metadata
    origin = model if record.embedding is None else hashlib.sha256(record.embedding.tobytes()).hexdigest()
    return Draft(
        id=record.id or str(uuid5(_IDS, f"{source}\n{record.title}\n{record.text}")),
        text=text,
        metadata=metadata | {"content_hash": _content_hash(text, metadata, origin)},
        embedding=record.embedding,
        line=record.line,
    )


def _draft_of_chunk(chunk: Chunk, source: str, title: str, model: str) -> Draft:
    metadata = {
        "source": source,
        "title": title,
        "section": chunk.section,
        "section_id": f"{source}#{chunk.section_id}" if chunk.section_id else source,  # unique in the collection
        "chunk_index": chunk.chunk_index,
        "start_line": chunk.start_line,
    }
    return Draft(
        id=str(uuid5(_IDS, f"{source}\n{chunk.section_id}\n{chunk.chunk_index}")),
        text=chunk.text,
        metadata=metadata | {"content_hash": _content_hash(chunk.text, metadata, model)},
    )


def _content_hash(text: str, metadata: Metadata, origin: str) -> str:
    """Of all that is written, and of what its embedding comes from: equal hashes need no second write."""
    return hashlib.sha256(orjson.dumps([origin, text, metadata], option=orjson.OPT_SORT_KEYS)).hexdigest()
