"""Encoding of metadata in a form that Chroma can hold, and back: a client gets exactly what a client gave.

Chroma panics on, drops, truncates or changes part of what JSON allows (docs/engine.md lists what was measured). Values
that it holds unchanged are stored as they are, so that any Chroma client can read and filter them. When an object has
any other value, the whole object is stored once more as JSON text under `JSON_KEY`, and that text is read back.

Fields and list elements beyond the number that Chroma can write of one record are in the JSON text only: a record with
more of them breaks its whole collection.

A document with lists that Chroma holds is marked under `LISTS_KEY`, for `EngineClient.delete_collection`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

from schemas.errors import InvalidInputError
from schemas.metadata import RESERVED_PREFIXES
from schemas.records import Metadata

JSON_KEY = "rag:json"
LISTS_KEY = "rag:lists"
REBUILD_KEY = "rag:rebuild"
"""The key, in the metadata of a collection made by a rebuild, of the name under which it was made."""
OWNER_KEY = "rag:catalogue"
"""The key, in the metadata of a collection that a service made, of the identity of its catalogue."""
OWN_KEYS = (JSON_KEY, LISTS_KEY)
MARKS = (LISTS_KEY, REBUILD_KEY, OWNER_KEY)
REFUSED_PREFIXES = ("#", "$", *RESERVED_PREFIXES)
MIN_INT, MAX_INT = -(2**63), 2**63 - 1
# Beyond these, Chroma's JSON reader is off by one in the last binary digit for some numbers: the decimal form has more
# digits, or a larger power of ten, than one exact multiplication or division of doubles can carry (Clinger 1990).
MAX_EXACT_DIGITS, MAX_EXACT_EXPONENT = 2**53, 22


# Chroma writes the fields of a record in one statement and the elements of its lists in another: SQLite's 32,766
# variables allow at most 5,460 and 5,461 (`benchmarks/engine_bounds.py`).
MOST_FIELDS, MOST_ELEMENTS = 5_000, 5_000


def encode_metadata(metadata: Metadata) -> Metadata | None:
    """Encode a document's metadata for Chroma. Returns None when there is none.

    Raises InvalidInputError for a number that JSON does not have (NaN, Infinity).
    """
    return _encode(metadata, _held_in_document)


def encode_collection_metadata(metadata: Metadata) -> Metadata | None:
    """Encode a collection's metadata for Chroma. Returns None when there is none.

    A list there makes Chroma's server panic, so lists are in the JSON text only. Raises InvalidInputError for NaN and
    Infinity.
    """
    return _encode(metadata, _held)


def reserved_metadata(metadata: Metadata) -> Metadata:
    """Return the engine's own entries (`hnsw:*`) of a collection's metadata.

    Other clients configure an index by them.
    """
    return {key: value for key, value in metadata.items() if key.startswith(RESERVED_PREFIXES) and _held(value)}


def decode_metadata(encoded: Metadata | None) -> Metadata:
    """Return the metadata that was encoded.

    Metadata from another client comes back as it is, also when its `JSON_KEY` is not a JSON object.
    """
    if not encoded:
        return {}
    text = encoded.get(JSON_KEY)
    if isinstance(text, str):
        try:
            original = json.loads(text)
        except ValueError:
            original = None
        if isinstance(original, dict):
            return original
    return {key: value for key, value in encoded.items() if key not in MARKS}


def removable(keys: Any) -> list[str]:
    """Return those of `keys` that Chroma may hold for a document with these metadata keys, our own included.

    An upsert merges metadata key by key, so replacing a document means sending null for keys that are to go.
    """
    return [key for key in keys if _key_held(key)] + list(OWN_KEYS) if keys else []


def _encode(metadata: Metadata, held: Callable[[Any], bool]) -> Metadata | None:
    if not metadata:
        return None
    encoded = _within_bounds({key: value for key, value in metadata.items() if _key_held(key) and held(value)})
    is_whole = len(encoded) == len(metadata) and all(map(_exact, encoded.values()))
    if any(type(value) is list for value in encoded.values()):
        encoded[LISTS_KEY] = True
    if is_whole:
        return encoded
    try:
        encoded[JSON_KEY] = json.dumps(metadata, allow_nan=False)
    except ValueError as exc:
        raise InvalidInputError("metadata must hold finite numbers only", field="metadata") from exc
    return encoded


def _within_bounds(held: Metadata) -> Metadata:
    """Return the first fields, and of the lists the first ones, as many as one record may have."""
    elements = sum(len(value) for value in held.values() if type(value) is list)
    if len(held) <= MOST_FIELDS and elements <= MOST_ELEMENTS:
        return held
    few: Metadata = {}
    room = MOST_ELEMENTS
    for key, value in held.items():
        if len(few) == MOST_FIELDS:
            break
        if type(value) is list:
            if len(value) > room:
                continue
            room -= len(value)
        few[key] = value
    return few


def size_of(encoded: Metadata | None) -> int:
    """Return how many fields and elements of lists Chroma has to write of a record."""
    if not encoded:
        return 0
    return len(encoded) + sum(len(value) for value in encoded.values() if type(value) is list)


def _key_held(key: str) -> bool:
    return key not in ("", *OWN_KEYS, *MARKS) and not key.startswith(REFUSED_PREFIXES) and _is_text(key)


def _held_in_document(value: Any) -> bool:
    if not isinstance(value, list):
        return _held(value)
    return bool(value) and len({type(item) for item in value}) == 1 and all(map(_held, value))


def _held(value: Any) -> bool:
    kind = type(value)
    if kind is str:
        return _is_text(value)
    if kind is int:
        return MIN_INT <= value <= MAX_INT
    return kind is bool or (kind is float and math.isfinite(value))


def _is_text(value: str) -> bool:
    """Return False for half a surrogate pair, which JSON can spell and UTF-8 cannot."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _exact(value: Any) -> bool:
    """Return whether Chroma gives a value back to the last bit.

    A value that it does not is stored nevertheless, so that a Chroma client finds it, and read back from the JSON text.
    """
    if type(value) is list:
        return type(value[0]) is not float or all(map(_exact, value))
    if type(value) is not float:
        return True
    if value == 0.0:
        return math.copysign(1.0, value) > 0
    _, digits, exponent = Decimal(repr(value)).as_tuple()
    number = int("".join(map(str, digits)))
    return number <= MAX_EXACT_DIGITS and abs(cast(int, exponent)) <= MAX_EXACT_EXPONENT
