"""Records in JSONL (such as BEIR's `corpus.jsonl`): each line of such a file is a document of its own."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, BinaryIO

import numpy as np
import orjson

from schemas.errors import InvalidInputError
from schemas.records import Metadata, Vector
from schemas.wire.json_in import decode

MAX_LINE_BYTES = 16 * 1024 * 1024
"""The limit for a line: a record is a document of one request."""


@dataclass(frozen=True, slots=True)
class Record:
    """A line that is a document. line: counts from 1; end_bytes: how much of the file has been read up to its end."""

    line: int
    end_bytes: int
    id: str | None
    title: str
    text: str
    metadata: Metadata
    embedding: Vector | None


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no record, and why; `message` continues a sentence."""

    line: int
    end_bytes: int
    message: str


def read_records(lines: BinaryIO) -> Iterator[Record | BadLine]:
    """Yield the records of an open file, one line in memory at a time. Blank lines are passed over."""
    end_bytes = 0
    for number in count(1):
        line = lines.readline(MAX_LINE_BYTES + 1)
        if not line:
            return
        end_bytes += len(line)
        if len(line) > MAX_LINE_BYTES:
            while line and not line.endswith(b"\n"):
                line = lines.readline(MAX_LINE_BYTES)
                end_bytes += len(line)
            yield BadLine(number, end_bytes, f"is longer than {MAX_LINE_BYTES} bytes")
            continue
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if line.strip():
            yield _record(number, end_bytes, line)


def _record(number: int, end_bytes: int, line: bytes) -> Record | BadLine:
    try:
        return _checked(decode(line), number, end_bytes)
    except orjson.JSONDecodeError as error:
        return BadLine(number, end_bytes, f"is not JSON: {error.msg}")
    except InvalidInputError as error:
        return BadLine(number, end_bytes, error.message)


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
    """Read an embedding, which is an array of numbers or the base64 of its float32."""
    if isinstance(value, list) and value and all(type(number) in (int, float) for number in value):
        return np.asarray(value, dtype=np.float32)
    if not isinstance(value, str):
        raise InvalidInputError("'embedding' is not an array of numbers")
    try:
        vector = np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float32)
    except ValueError:
        vector = np.empty(0, np.float32)
    if not vector.size:
        raise InvalidInputError("'embedding' is not base64 of float32 numbers")
    return vector
