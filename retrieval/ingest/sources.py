"""Find the files of a folder that can be loaded, and read records in JSONL (such as BEIR's `corpus.jsonl`)."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson

from retrieval.ingest.bounds import MAX_NAMED
from retrieval.ingest.identity import IS_REPEATED, REPEATED_NAME, repeated_names
from retrieval.ingest.regular_files import LINK, NOT_A_FILE, open_regular
from retrieval.reading import Kind, UnreadableError, kind_of, kind_of_content
from retrieval.reading.read_document import EMPTY, TOO_LARGE, UNREADABLE, UNSUPPORTED_KIND
from schemas.errors import InvalidInputError
from schemas.records import Metadata, Vector
from schemas.wire.json_in import decode

MAX_LINE_BYTES = 16 * 1024 * 1024
"""The limit for a line of a JSONL file: a record is a document of one request."""
SNIFFED_BYTES = 64 * 1024 * 1024
"""How much of a file without a suffix tells its kind: an archive's table of contents is at its end."""
_MEGABYTE = 1024 * 1024
_BEIR_CORPUS = "corpus.jsonl"
_BEIR_OTHERS = {"queries.jsonl", "qrels"}  # questions and judgements, not documents


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to load. path_below: its path below the loaded folder, with `/`; a single file's is its name.

    Links on that path are followed only with `follows_links`, even those that took its place after it was found.
    """

    path: Path
    path_below: str
    kind: Kind
    size_bytes: int
    follows_links: bool = False

    def open(self) -> BinaryIO:
        """Open the file. Raises UnreadableError when it cannot be opened, or is no regular file any more."""
        return _opened(self.path, self.path_below, self.follows_links)

    def read(self, max_mb: int) -> bytes:
        """Return the bytes of the file. Raises what `open` raises, and UnreadableError for a larger one."""
        with self.open() as opened, _unreadable():
            is_too_large = os.fstat(opened.fileno()).st_size > max_mb * _MEGABYTE
            content = b"" if is_too_large else opened.read()
        if is_too_large or len(content) > max_mb * _MEGABYTE:
            raise UnreadableError(f"is larger than {max_mb} MB", code=TOO_LARGE)
        return content


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
class PassedOver:
    """A file, or a folder (its path ends with `/`), that is not loaded, which is no error. `code` is one of those of
    unreadable files, or `hidden`, `link`, `not_a_file` or `beir`; `reason` continues a sentence after the path."""

    path: str
    code: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


HIDDEN, BEIR = "hidden", "beir"
NO_ERRORS = (EMPTY, UNSUPPORTED_KIND, LINK, NOT_A_FILE)
"""The codes of unreadable files that are passed over, as there is nothing in them that could be missed."""


@dataclass(slots=True)
class Found:
    """What is below a path: `folder` is the name of the folder, "" for the root of the file system."""

    folder: str
    files: list[SourceFile] = field(default_factory=list)
    passed_over: list[PassedOver] = field(default_factory=list)
    errors: list[SourceError] = field(default_factory=list)


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


def find_sources(path: Path, *, follow_links: bool = False) -> Found:
    """Return the files at `path`, a file or a folder, sorted by name, and what is passed over.

    Passed over are hidden files and folders, files of no known kind, and BEIR's queries and judgements. Symbolic links
    are unless `follow_links`, because they may lead out of the folder. Of files whose names are one name, composed and
    decomposed, the first is found and the others are errors. Raises InvalidInputError when there is nothing to load.
    """
    if path.is_file():
        found = Found(path.resolve().parent.name)
        _add(path, path.name, True, found)
        for reason in (*(each.reason for each in found.passed_over), *(each.message for each in found.errors)):
            raise InvalidInputError(f"'{path}' {reason}")
        return found
    if not path.is_dir():
        raise InvalidInputError(f"'{path}' {'is neither a file nor a folder' if path.exists() else 'does not exist'}")
    found = Found(path.resolve().name)
    _walk(path, "", follow_links, frozenset(), found)
    repeated = repeated_names(file.path_below for file in found.files)
    found.errors += [SourceError(each, None, IS_REPEATED, REPEATED_NAME) for each in sorted(repeated)]
    found.files = [file for file in found.files if file.path_below not in repeated]
    if not found.files and not found.errors:
        named = "".join(f"\n{each}" for each in found.passed_over[:MAX_NAMED])
        raise InvalidInputError(f"'{path}' contains no files that can be loaded{named}")
    return found


def read_records(file: SourceFile, source: str) -> Iterator[Record | SourceError]:
    """Yield the records of a JSONL file, one line in memory at a time; a bad line is yielded as an error."""
    end_bytes = 0
    try:
        with file.open() as lines, _unreadable():
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


def _walk(folder: Path, below: str, follow_links: bool, above: frozenset[Path], found: Found) -> None:
    """Add the files below a folder. `above` are the real paths of its parents: a link back to one is a loop."""
    place = folder.resolve()
    if place in above:
        found.passed_over.append(PassedOver(below, LINK, "is a symbolic link to a folder above"))
        return
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    except OSError as error:
        found.errors.append(SourceError(below or folder.name, None, f"cannot be listed: {error.strerror}", UNREADABLE))
        return
    has_corpus = (folder / _BEIR_CORPUS).is_file()
    for entry in entries:
        is_folder = entry.is_dir() and (follow_links or not entry.is_symlink())
        path = _shown(f"{below}{entry.name}{'/' if is_folder else ''}")
        if _shown(entry.name) != entry.name:
            found.errors.append(SourceError(path, None, "has a name that is not UTF-8", UNREADABLE))
        elif entry.name.startswith("."):
            found.passed_over.append(PassedOver(path, HIDDEN, "is hidden"))
        elif has_corpus and entry.name in _BEIR_OTHERS:
            found.passed_over.append(PassedOver(path, BEIR, "holds questions and judgements of BEIR, not documents"))
        elif not entry.is_file() and not entry.is_dir():
            found.passed_over.append(PassedOver(path, NOT_A_FILE, "is not a file"))
        elif entry.is_symlink() and not follow_links:
            found.passed_over.append(PassedOver(path, LINK, "is a symbolic link (--follow-links loads it)"))
        elif is_folder:
            _walk(entry, path, follow_links, above | {place}, found)
        else:
            _add(entry, path, follow_links, found)


def _shown(name: str) -> str:
    return name.encode(errors="replace").decode()


def _add(path: Path, path_below: str, follows_links: bool, found: Found) -> None:
    try:
        kind = _kind(path, path_below, follows_links)
        with _unreadable():
            size_bytes = os.stat(path).st_size
    except UnreadableError as error:
        if error.code in NO_ERRORS:
            found.passed_over.append(PassedOver(path_below, error.code, error.message))
        else:
            found.errors.append(SourceError(path_below, None, error.message, error.code))
    else:
        found.files.append(SourceFile(path, path_below, kind, size_bytes, follows_links))


def _kind(path: Path, path_below: str, follows_links: bool) -> Kind:
    """Return the kind of a file: by its suffix, without one by its content. Raises UnreadableError without a kind."""
    kind = kind_of(path.name)
    if kind is None and not path.suffix:
        with _opened(path, path_below, follows_links) as opened, _unreadable():
            kind = kind_of_content(opened.read(SNIFFED_BYTES))
    if kind is None:
        raise UnreadableError("is of no kind that can be read", code=UNSUPPORTED_KIND)
    return kind


def _opened(path: Path, path_below: str, follows_links: bool) -> BinaryIO:
    with _unreadable():
        return open_regular(path.parents[path_below.count("/")], path_below, follow_links=follows_links)


@contextmanager
def _unreadable() -> Iterator[None]:
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
