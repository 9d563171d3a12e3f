"""The files that become documents, and records in JSONL (such as BEIR's `corpus.jsonl`)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson

from retrieval.ingest.regular_files import open_regular
from retrieval.reading import Kind, UnreadableError
from schemas.errors import InvalidInputError
from schemas.records import Metadata, Vector
from schemas.wire.json_in import decode

MAX_LINE_BYTES = 16 * 1024 * 1024
"""The limit for a line of a JSONL file: a record is a document of one request."""
SNIFFED_BYTES = 64 * 1024 * 1024
"""How much of a file without a suffix tells its kind: an archive's table of contents is at its end."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a folder. path_below: its path below that folder, with `/`; a single file's is its name.

    Links on that path are followed only with `follows_links`, even those that took its place after it was found. A file
    whose `signature` (inode, size, times of the last change in nanoseconds) differs from before may have changed.
    """

    path: Path
    path_below: str
    kind: Kind
    size_bytes: int
    follows_links: bool = False
    signature: tuple[int, ...] = ()

    def open(self) -> BinaryIO:
        """Open the file. Raises UnreadableError when it cannot be opened, or is no regular file any more."""
        return opened_below(self.path, self.path_below, self.follows_links)


@dataclass(frozen=True, slots=True)
class SourceError:
    """A file or line that could not be loaded, and why; line counts from 1 and is None when the whole file is meant."""

    source: str
    line: int | None
    message: str
    code: str = InvalidInputError.code

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.message}" if self.line else f"{self.source}: {self.message}"


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a JSONL file. end_bytes: how much of the file has been read up to its end."""

    line: int
    end_bytes: int
    id: str | None
    title: str
    text: str
    metadata: Metadata
    embedding: Vector | None


def read_records(file: SourceFile, source: str) -> Iterator[Record | SourceError]:
    """Yield the records of a JSONL file, one line in memory at a time; a bad line is yielded as an error."""
    end_bytes = 0
    try:
        with file.open() as lines, unreadable():
            for number in count(1):
                line = lines.readline(MAX_LINE_BYTES + 1)
                if not line:
                    return
                end_bytes += len(line)
                if len(line) > MAX_LINE_BYTES:
                    while line and not line.endswith(b"\n"):
                        line = lines.readline(MAX_LINE_BYTES)
                        end_bytes += len(line)
                    yield SourceError(source, number, f"is longer than {MAX_LINE_BYTES} bytes")
                    continue
                line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if line.strip():
                    yield _record(source, number, end_bytes, line)
    except UnreadableError as error:
        yield SourceError(source, None, error.message, error.code)


def opened_below(path: Path, path_below: str, follows_links: bool) -> BinaryIO:
    """Open a file by its path below a folder. Raises UnreadableError when that fails, or it is no regular file."""
    with unreadable():
        return open_regular(path.parents[path_below.count("/")], path_below, follow_links=follows_links)


@contextmanager
def unreadable() -> Iterator[None]:
    """Turn what the system says against a file into UnreadableError."""
    try:
        yield
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}") from error


def _record(source: str, number: int, end_bytes: int, line: bytes) -> Record | SourceError:
    try:
        return _checked(decode(line), number, end_bytes)
    except orjson.JSONDecodeError as error:
        return SourceError(source, number, f"is not JSON: {error.msg}")
    except InvalidInputError as error:
        return SourceError(source, number, error.message)


def _checked(fields: Any, number: int, end_bytes: int) -> Record:
    if not isinstance(fields, dict):
        raise InvalidInputError("is not a JSON object")
    given_id = fields.get("id", fields.get("_id"))
    if isinstance(given_id, int) and not isinstance(given_id, bool):
        given_id = str(given_id)
    text, title = fields.get("text"), fields.get("title")
    metadata, embedding = fields.get("metadata"), fields.get("embedding")
    if given_id is not None and (not isinstance(given_id, str) or not given_id):
        raise InvalidInputError("'id' is not a string")
    if not isinstance(text, str):
        raise InvalidInputError("'text' is missing" if text is None else "'text' is not a string")
    if not isinstance(title or "", str):
        raise InvalidInputError("'title' is not a string")
    if not isinstance(metadata or {}, dict):
        raise InvalidInputError("'metadata' is not an object")
    return Record(
        line=number,
        end_bytes=end_bytes,
        id=given_id,
        title=(title or "").strip(),
        text=text,
        metadata=metadata or {},
        embedding=None if embedding is None else _vector(embedding),
    )


def _vector(value: Any) -> Vector:
    if isinstance(value, str):
        return _decoded(value)
    if not isinstance(value, list) or not value or any(type(number) not in (int, float) for number in value):
        raise InvalidInputError("'embedding' is not an array of numbers")
    return np.asarray(value, dtype=np.float32)


def _decoded(value: str) -> Vector:
    try:
        raw = base64.b64decode(value, validate=True)
        if raw:
            return np.frombuffer(raw, dtype="<f4").astype(np.float32)
    except (binascii.Error, ValueError):
        pass
    raise InvalidInputError("'embedding' is not base64 of float32 numbers")
