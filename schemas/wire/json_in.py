"""Decodes JSON of callers without losing a digit of an integer.

The parser makes floats of integers beyond 64 bits. This module decides which of them are kept to the digit and which
are refused, once for bodies, lines of streams, query strings, messages and files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import orjson

from schemas.errors import InvalidInputError

BEYOND_64_BITS = 2.0**63
VECTORS = frozenset({"embedding", "embeddings", "query_embedding", "query_embeddings"})
"""The fields whose numbers are float32, however they are written."""
_SHORTEST = 19
"""The number of digits of the least integer beyond 64 bits."""

Path = tuple[str | int, ...]


class _LongInteger(str):
    """The digits of an integer that the parser would round."""


def decode(content: bytes | str, name: str = "") -> Any:
    """Return the value of a JSON text, which errors call `name`. Floats beyond 64 bits are kept as they are.

    Raise orjson.JSONDecodeError when the text is not JSON, and InvalidInputError, naming its field, for an integer
    beyond 64 bits.
    """
    value = orjson.loads(content)
    if _holds_huge_float(value):
        try:
            long = _long_integer(json.loads(content, parse_int=_whole))
        except RecursionError:
            raise InvalidInputError("The JSON is nested too deep", code="invalid_json", field=name or None) from None
        if long is not None:
            raise _refusal((name, *long[0]) if name else long[0], long[1])
    return value


def _whole(digits: str) -> int | _LongInteger:
    if len(digits) < _SHORTEST or (-(2**63) <= int(digits[:25]) < 2**64 and len(digits) <= _SHORTEST + 1):
        return int(digits)
    return _LongInteger(digits)


def _holds_huge_float(value: Any) -> bool:
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            left.extend(each.values())
        elif isinstance(each, list):
            if each and isinstance(each[0], int | float) and _is_small(each):
                continue
            left.extend(each)
        elif isinstance(each, float) and abs(each) >= BEYOND_64_BITS:
            return True
    return False


def _is_small(numbers: list[Any]) -> bool:
    """Return whether the list has only numbers and none of them is huge: a check that is quick for long vectors."""
    try:
        return bool(max(numbers) < BEYOND_64_BITS and min(numbers) > -BEYOND_64_BITS)
    except TypeError:
        return False


def _long_integer(value: Any) -> tuple[Path, str] | None:
    """Return where the first integer is that the parser would round, and its digits; None when there is none."""
    left: list[tuple[Path, Any]] = [((), value)]
    while left:
        path, each = left.pop()
        inner: Iterable[tuple[str | int, Any]] = ()
        if isinstance(each, dict):
            inner = [(key, below) for key, below in each.items() if not (key in VECTORS and isinstance(below, list))]
        elif isinstance(each, list):
            inner = list(enumerate(each))
        elif isinstance(each, _LongInteger):
            return path, each
        left.extend(((*path, key), below) for key, below in reversed(list(inner)))
    return None


def _refusal(path: Path, digits: str) -> InvalidInputError:
    index = None
    if len(path) > 2 and path[0] == "documents" and isinstance(path[1], int):
        index, path = path[1], path[2:]
    field = ".".join(map(str, path))
    shown = digits if len(digits) <= 40 else f"{digits[:20]}… of {len(digits.lstrip('-'))} digits"
    sentence = f"{field or 'The body'} is an integer beyond 64 bits ({shown}): write it as a string, or as a float"
    return InvalidInputError(sentence, code="integer_too_large", field=field or None, index=index)
