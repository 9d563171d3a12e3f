"""Find and read the files that can be loaded: Markdown, plain text and JSONL (such as BEIR's `corpus.jsonl`)."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from schemas.errors import InvalidInputError
from schemas.records import Metadata, Vector
from schemas.wire.json_in import decode


class SourceKind(Enum):
    MARKDOWN = "markdown"
    TEXT = "text"
    JSONL = "jsonl"


KINDS = {
    ".md": SourceKind.MARKDOWN,
    ".markdown": SourceKind.MARKDOWN,
    ".txt": SourceKind.TEXT,
    ".rst": SourceKind.TEXT,
    ".jsonl": SourceKind.JSONL,
}
MAX_FILE_BYTES = 64 * 1024 * 1024
"""The limit for a Markdown or text file, which is read as a whole."""
MAX_LINE_BYTES = 16 * 1024 * 1024
"""The limit for a line of a JSONL file: a record is a document of one request."""
_BEIR_CORPUS = "corpus.jsonl"
_BEIR_OTHERS = {"queries.jsonl", "qrels"}  # questions and judgements, not documents


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to load. source: its path below the loaded folder, with `/`; a single file's is its name."""

    path: Path
    source: str
    kind: SourceKind
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SourceError:
    """A file or line that could not be loaded, and why; line counts from 1 and is None when the whole file is meant."""

    source: str
    line: int | None
    message: str

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


def find_sources(path: Path, *, follow_links: bool = False) -> list[SourceFile]:
    """Return the files at `path`, a file or a folder, that can be loaded, sorted by name.

    Skipped are hidden files and folders, other kinds of files, and BEIR's queries and judgements. Symbolic links are
    skipped unless `follow_links`, because they may lead out of the folder. Raises InvalidInputError when there is
    nothing to load.
    """
    if path.is_file():
        if path.suffix.lower() not in KINDS:
            raise InvalidInputError(f"'{path}' is not one of the kinds that can be loaded: {', '.join(KINDS)}")
        return [_source_file(path, path.parent)]
    if not path.is_dir():
        raise InvalidInputError(f"'{path}' does not exist")
    found = [_source_file(file, path) for file in _walk(path, follow_links, frozenset())]
    if not found:
        raise InvalidInputError(f"'{path}' contains no files that can be loaded: {', '.join(KINDS)}")
    return found


def read_text(file: SourceFile, *, max_bytes: int = MAX_FILE_BYTES) -> str:
    """Return the whole text of a file.

    Raises InvalidInputError with the reason when it is unreadable, too large, not UTF-8 or not a text.
    """
    try:
        with file.path.open("rb") as opened:
            content = opened.read(max_bytes + 1)
    except OSError as error:
        raise InvalidInputError(f"cannot be read: {error.strerror}") from error
    if len(content) > max_bytes:
        raise InvalidInputError(f"is larger than {max_bytes} bytes")
    return decoded(content)


def decoded(content: bytes) -> str:
    """Decode the bytes of a file. Raises InvalidInputError with the reason when they are not UTF-8 or not a text."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"is not UTF-8: byte {error.start} is wrong") from error
    if "\0" in text:
        raise InvalidInputError("is not a text: it contains NUL characters")
    return text


def read_records(file: SourceFile) -> Iterator[Record | SourceError]:
    """Yield the records of a JSONL file, one line in memory at a time; a bad line is yielded as an error."""
    end_bytes = 0
    try:
        with file.path.open("rb") as lines:
            for number in count(1):
                line = lines.readline(MAX_LINE_BYTES + 1)
                if not line:
                    return
                end_bytes += len(line)
                if len(line) > MAX_LINE_BYTES:
                    while line and not line.endswith(b"\n"):
                        line = lines.readline(MAX_LINE_BYTES)
                        end_bytes += len(line)
                    yield SourceError(file.source, number, f"is longer than {MAX_LINE_BYTES} bytes")
                    continue
                line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if line.strip():
                    yield _record(file.source, number, end_bytes, line)
    except OSError as error:
        yield SourceError(file.source, None, f"cannot be read: {error.strerror}")


def _walk(folder: Path, follow_links: bool, above: frozenset[Path]) -> Iterator[Path]:
    """Yield the files below a folder. `above` are the real paths of its parents: a link back to one is a loop."""
    place = folder.resolve()
    if place in above:
        return
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.startswith(".") or (entry.name in _BEIR_OTHERS and (folder / _BEIR_CORPUS).is_file()):
            continue
        if entry.is_symlink() and not follow_links:
            continue
        if entry.is_dir():
            yield from _walk(entry, follow_links, above | {place})
        elif entry.is_file() and entry.suffix.lower() in KINDS:
            yield entry


def _source_file(path: Path, root: Path) -> SourceFile:
    return SourceFile(
        path=path,
        source=path.relative_to(root).as_posix(),
        kind=KINDS[path.suffix.lower()],
        size_bytes=os.stat(path).st_size,
    )


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
