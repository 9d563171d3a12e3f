"""Decodes JSON of callers without losing a digit of an integer.

The parser makes floats of integers beyond 64 bits. This module decides which of them are kept to the digit and which
are refused, once for bodies, lines of streams, query strings, messages and files.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import orjson

from schemas.errors import InvalidInputError

BEYOND_64_BITS = 2.0**63
VECTORS = frozenset({"embedding", "embeddings", "query_embedding", "query_embeddings"})
"""The fields whose numbers are float32, however they are written."""
_LONG = b"0" * 19
"""As many digits as the least integer beyond 64 bits has, as `_DIGITS` spells them."""
_OF_FLOATS = (b".", b"e", b"E")
_DIGITS = bytes(ord("0") if chr(code).isdigit() and code < 128 else ord(".") for code in range(256))

MAX_DEPTH = 1_024
"""The most levels of a JSON text that the parser reads."""
_OF_CALLERS = ("metadata", "metadatas", "attributes", "where", "filters", "metadata_condition")
"""End the names of fields below which a string or a float may take the place of any integer."""
_UNREAD = {
    "depth limit exceeded": (f"is nested deeper than {MAX_DEPTH:,} levels", {"limit": MAX_DEPTH}),
    "number is infinity when parsed as double": ("has a number that no float of 64 bits is as large as", {}),
}
"""What the parser says of JSON that it does not read, and what that is."""
_CRAMPED = "failed to allocate memory"
"""What the parser says of hundreds of brackets that nothing closes: it makes room by the length of a text."""
ROOMY_BYTES = 1 << 16

Path = tuple[str | int, ...]
_Way = tuple["_Way", str | int] | None
"""The path to a value as a chain from its end to its beginning."""


def decode(content: bytes | str, name: str = "") -> Any:
    """Return the value of a JSON text, which errors call `name`. Floats beyond 64 bits are kept as they are.

    Raise orjson.JSONDecodeError when the text is not JSON, and InvalidInputError, naming its field, for an integer
    beyond 64 bits, or the place of what is JSON and is not read.
    """
    try:
        value = _loads(content)
    except orjson.JSONDecodeError as error:
        if error.msg not in _UNREAD:
            raise
        said, details = _UNREAD[error.msg]
        sentence = f"{name or 'The JSON'} {said}: character {error.pos + 1:,}"
        raise InvalidInputError(sentence, code="invalid_json", field=name or None, **details) from None
    if _holds_huge_float(value):
        long = _long_integer(content if isinstance(content, bytes) else content.encode())
        if long is not None:
            raise _refusal((name, *long[0]) if name else long[0], long[1])
    return value


def _loads(content: bytes | str) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        if error.msg != _CRAMPED:
            raise
    try:
        return orjson.loads(content.ljust(ROOMY_BYTES))
    except orjson.JSONDecodeError as error:
        text = content if isinstance(content, str) else content.decode()
        raise orjson.JSONDecodeError(error.msg, text, min(error.pos, len(text))) from None


def check_named_once(content: bytes | str, name: str | None = None) -> None:
    """Raise InvalidInputError, with the field `name`, for a JSON text with an object that names something twice: the
    parser takes the last, and the caller may have meant both."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                sentence = f"'{key}' is given twice in one object"
                raise InvalidInputError(sentence, code="invalid_field", field=name or key)
            seen.add(key)

    with suppress(RecursionError):  # nothing that deep is taken
        json.loads(content, object_pairs_hook=check)


def _holds_huge_float(value: Any) -> bool:
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            left.extend(each.values())
        elif isinstance(each, list):
            if (is_small := _is_small(each)) is None:
                left.extend(each)
            elif not is_small:
                return True
        elif isinstance(each, float) and abs(each) >= BEYOND_64_BITS:
            return True
    return False


def _is_small(values: list[Any]) -> bool | None:
    """Return whether none of a list of numbers is huge, None for a list of anything else: quick for long vectors."""
    try:
        if values and isinstance(values[0], int | float):
            return bool(max(values) < BEYOND_64_BITS and min(values) > -BEYOND_64_BITS)
    except TypeError:
        pass
    return None


def _long_integer(content: bytes) -> tuple[Path, str] | None:
    """Return where the first integer is that the parser would round, and its digits; None when there is none."""
    mark = secrets.token_hex(16)  # so that no string of the caller's is taken for digits
    marked = _marked(content, mark.encode())
    return None if marked is None else _first_marked(orjson.loads(marked), mark)


def _marked(content: bytes, mark: bytes) -> bytes | None:
    """Return a JSON text with each integer beyond 64 bits as a string that begins with `mark`; None for a text without.

    Only runs of digits as long as such an integer are looked at, so it costs little more than reading the text once.
    """
    digits = content.translate(_DIGITS)
    start = digits.find(_LONG)
    if start < 0:
        return None
    plain = content.replace(b"\\\\", b"..").replace(b'\\"', b"..")  # each quote left begins or ends a string
    pieces, copied, quotes, counted = [], 0, 0, 0
    while start >= 0:
        end = digits.find(b".", start)
        end = len(digits) if end < 0 else end
        quotes += plain.count(b'"', counted, start)
        counted = start
        before, sign = content[max(0, start - 2) : start], content[start - 1 : start] == b"-"
        is_integer = (
            not before.endswith((b".", b"+", b"e", b"E", b"e-", b"E-")) and content[end : end + 1] not in _OF_FLOATS
        )
        if quotes % 2 == 0 and is_integer:
            first = start - sign
            if end - start > 20 or not -(2**63) <= int(content[first:end]) < 2**64:
                pieces += [content[copied:first], b'"', mark, content[first:end], b'"']
                copied = end
        start = digits.find(_LONG, end)
    return b"".join([*pieces, content[copied:]]) if pieces else None


def _first_marked(value: Any, mark: str) -> tuple[Path, str] | None:
    left: list[tuple[_Way, Any]] = [(None, value)]
    while left:
        way, each = left.pop()
        inner: Iterable[tuple[str | int, Any]] = ()
        if isinstance(each, dict):
            inner = [(key, below) for key, below in each.items() if not (key in VECTORS and isinstance(below, list))]
        elif isinstance(each, list):
            inner = enumerate(each)
        elif each.startswith(mark):
            path: list[str | int] = []
            while way is not None:
                way, key = way
                path.append(key)
            return tuple(reversed(path)), each[len(mark) :]
        left.extend(reversed([((way, key), below) for key, below in inner if isinstance(below, dict | list | str)]))
    return None


def _refusal(path: Path, digits: str) -> InvalidInputError:
    index = None
    if len(path) > 2 and path[0] == "documents" and isinstance(path[1], int):
        index, path = path[1], path[2:]
    field = ".".join(map(str, path))
    shown = digits if len(digits) <= 40 else f"{digits[:20]}… of {len(digits.lstrip('-'))} digits"
    sentence = f"{field or 'The body'} is an integer beyond 64 bits ({shown})"
    if any(str(each).endswith(_OF_CALLERS) for each in path):
        sentence += ": write it as a string, or as a float"
    return InvalidInputError(sentence, code="integer_too_large", field=field or None, index=index)
