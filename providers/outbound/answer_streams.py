"""Answers that arrive in pieces: server-sent events and lines of JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import orjson

LINE_FEED, CARRIAGE_RETURN = b"\n", b"\r"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""The character that some write before a text in UTF-8. It is none of the text's."""


def lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a text in pieces, without their ends: LF, CR LF or CR, and without a byte order mark.

    The last line needs no end. What the pieces cut, a character of several bytes or the two of an end, is whole again.
    """
    begun = bytearray()
    mark = BYTE_ORDER_MARK
    after_return = False
    for piece in pieces:
        content = piece.removeprefix(LINE_FEED) if after_return else piece
        if not content:
            after_return = False
            continue
        after_return = content.endswith(CARRIAGE_RETURN)
        first, *others = content.replace(b"\r\n", LINE_FEED).replace(CARRIAGE_RETURN, LINE_FEED).split(LINE_FEED)
        begun += first
        if others:
            yield bytes(begun).removeprefix(mark)
            mark = b""
            *whole, last = others
            yield from whole
            begun = bytearray(last)
    if begun and begun != mark:
        yield bytes(begun).removeprefix(mark)


def event_data(said: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the data of each server-sent event in these lines (HTML Standard, 9.2.6) that has any, under `error` in a
    JSON object where that is the event's name.

    Comments, which servers send to keep a connection open, and fields other than `data` and `event` say nothing. The
    last event needs no blank line after it.
    """
    data: list[bytes] = []
    is_error = False
    for line in chain(said, (b"",)):
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"event":
            is_error = value.strip() == b"error"
        elif not line:
            content = LINE_FEED.join(data)
            if content:
                yield _as_error(content) if is_error else content
            data, is_error = [], False


def _as_error(content: bytes) -> bytes:
    try:
        said = orjson.loads(content)
    except orjson.JSONDecodeError:
        said = content.decode(errors="replace")
    return content if isinstance(said, dict) and said.get("error") else orjson.dumps({"error": said or True})


def not_blank(said: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that hold a value in NDJSON."""
    return (line for line in said if line.strip())


def json_object(content: bytes) -> dict[str, Any]:
    """Return a JSON object. Raises ValueError when the text holds something else."""
    value = orjson.loads(content)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value
