"""Files as documents, in one way however they came: `source_document`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

import orjson

from retrieval.chunking import StructuredText, Syntax, opening_heading
from retrieval.ingest.collection_writer import CollectionWriter
from retrieval.ingest.drafts import SourceDocument
from retrieval.ingest.identity import document_id, same_file
from retrieval.ingest.ingestion import UNCHANGED, Ingested, first_chunk_of, is_same_file
from retrieval.ingest.profiles import Chunking
from retrieval.reading import Kind, Parsed
from schemas.contracts.chat import PLACES
from schemas.errors import InvalidInputError
from schemas.metadata import set_apart
from schemas.records import Metadata
from schemas.where import Where

CODE, DOCUMENTATION = "code", "documentation"
_PLACEHOLDER = re.compile(r"(?:Slide|Sheet|Page|Part) ?\d+|\(no subject\)")
"""What a part is called that has no title of its own."""
CONTENT_TYPE = "contentType"
"""Metadata of files by which the context tools filter: one of the two words above."""


@dataclass(frozen=True)
class GivenFile:
    """A file to be stored, with what was given for it.

    `source` identifies the document: the name it was uploaded under, such as `<folder>/<path below it>` with `/`.
    `metadata` and `tags` are beside those that the file itself has.
    """

    source: str
    content: bytes | Path
    kind: Kind
    metadata: Metadata = field(default_factory=dict)
    tags: Sequence[str] = ()

    @property
    def name(self) -> str:
        return PurePosixPath(self.source).name

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the bytes. Raises InvalidInputError when they cannot be read."""
        if isinstance(self.content, bytes):
            return hashlib.sha256(self.content).hexdigest()
        try:
            with self.content.open("rb") as opened:
                return hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            raise InvalidInputError(f"cannot be read: {error.strerror}") from error

    @property
    def size_bytes(self) -> int:
        """Return how large the file is. Raises InvalidInputError when that cannot be found out."""
        try:
            return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size
        except OSError as error:
            raise InvalidInputError(f"cannot be read: {error.strerror}") from error

    @property
    def where(self) -> Where:
        """Select all that is stored of this document, however it came."""
        return same_file(self.source)

    @property
    def fingerprint(self) -> str:
        """Return a hash of what was given beside the file, "" when nothing was."""
        return fingerprint_of(self.metadata, self.tags)


def fingerprint_of(metadata: Metadata, tags: Sequence[str] = ()) -> str:
    """Return a hash of what is given beside a file, "" when nothing is."""
    if not metadata and not tags:
        return ""
    given = orjson.dumps([metadata, list(tags)], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(given).hexdigest()[:16]


def unchanged(writer: CollectionWriter, file: GivenFile, chunking: Chunking) -> Ingested | None:
    """Return the outcome for a file that is stored as it is already, which need not be read for that, else None."""
    stored = writer.stored(file.where)
    wanted = {"hash": file.digest, "chunking": chunking.label, "given": file.fingerprint}
    wanted["embedding_model"] = writer.embedding.model
    documents, first = {each.metadata.get("document_id") for each in stored.values()}, first_chunk_of(stored)
    if len(documents) == 1 and first.get("chunk_count") == len(stored) and is_same_file(first, wanted):
        return Ingested(UNCHANGED, len(stored), unchanged=len(stored))
    return None


def source_document(file: GivenFile, read: Parsed, *, chunking: Chunking) -> SourceDocument:
    """Return the document of a file that was read: the same one for the same bytes, whichever way they came.

    Front matter and what else a file says of itself become metadata, below what was given; tags are those of both.
    Neither says where a chunk stands: that is what reading found. What is called like something that the service knows
    is `set_apart`. The number of pages is in the metadata, too.
    """
    syntax = file.kind.syntax
    text = StructuredText(read.text) if syntax is Syntax.MARKDOWN else read.text
    # Front matter that reading has left in the text cannot be read, so its title is none.
    title = read.title
    if not title and isinstance(text, StructuredText) and file.kind.begins_with_title:
        title = opening_heading(text)
        title = None if title and _PLACEHOLDER.fullmatch(title) else title
    split, tags = chunking.splitter(syntax), merged_tags(merged_tags(file.tags, file.metadata), read.metadata)
    said = {**read.metadata, **file.metadata}
    told = said.get("tags")
    if isinstance(told, list) and all(isinstance(tag, str) for tag in told):  # they are among those above
        del said["tags"]
    own = {
        "source": file.source,
        "path": file.source.partition("/")[2] or file.source,
        CONTENT_TYPE: CODE if syntax is Syntax.CODE else DOCUMENTATION,
        **({} if read.pages is None else {"pages": read.pages}),
        **({"tags": tags} if tags else {}),
    }
    return SourceDocument(
        id=document_id(file.source),
        title=title or file.name,
        text=read.text,
        metadata=set_apart(said, own, (*PLACES, "ocr", "tags")),
        split=lambda _: split(text),
        hash=file.digest,
        sections=file.source,
        title_is_file_name=not title,
        kind=file.kind.name,
        marks=read.marks,
        warnings=read.warnings,
        replaces=file.where,
        chunking=chunking.label,
        given=file.fingerprint,
        size_bytes=file.size_bytes,
    )


def merged_tags(given: Sequence[str], metadata: Metadata) -> list[str]:
    """Return the tags that were given, and after them those in a file's own metadata."""
    told = metadata.get("tags")
    own = [tag for tag in told if isinstance(tag, str)] if isinstance(told, list) else []
    return list(dict.fromkeys([*given, *own]))
