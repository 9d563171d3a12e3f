"""Typed values as byte strings whose order is the order of the values.

One column of them answers equality, ranges, sorting and facets alike, exactly, in any database that compares bytes:
bool, number and string stay distinct, 1 equals 1.0, 64-bit integers and floats compare without rounding, strings
compare by code point (UTF-8 keeps that order). The first byte is the kind; list elements have kinds of their own, so
that `$contains` and `$eq` never see each other's rows.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from schemas.where import Scalar

OBJECT, LIST, NULL = b"\x00", b"\x01", b"\x02"
BOOLEAN, NUMBER, STRING = b"\x04", b"\x05", b"\x06"
ELEMENT_BIT = 0x10

_DOUBLE = struct.Struct(">d")
_BITS = struct.Struct(">Q")
_RESIDUAL = struct.Struct(">H")
_SIGN = 1 << 63


def encode_value(value: Scalar) -> bytes:
    """Return the sortable bytes of a bool, a finite number (integers within 64 bits) or a string."""
    if value is True or value is False:
        return BOOLEAN + (b"\x01" if value else b"\x00")
    if isinstance(value, str):
        return STRING + value.encode()
    return NUMBER + _encode_number(value)


def encode_element(value: Scalar) -> bytes:
    """Return the sortable bytes of an element of a list."""
    encoded = encode_value(value)
    return bytes((encoded[0] | ELEMENT_BIT,)) + encoded[1:]


def as_scalar(encoded: bytes) -> bytes:
    """Return the bytes of the same value as a scalar, whether it is one or an element of a list."""
    return bytes((encoded[0] & ~ELEMENT_BIT,)) + encoded[1:]


def decode_value(encoded: bytes) -> Any:
    """Return the value behind the sortable bytes of a scalar or an element. Whole numbers come back as int."""
    kind = encoded[0] & ~ELEMENT_BIT
    if kind == STRING[0]:
        return encoded[1:].decode()
    if kind == BOOLEAN[0]:
        return encoded[1] == 1
    if kind == NUMBER[0]:
        return _decode_number(encoded[1:])
    return None


def _encode_number(value: int | float) -> bytes:
    # The double at or below the number, made sortable. An integer between two doubles adds its distance to it.
    lower = float(value)
    residual = 0
    if isinstance(value, int) and int(lower) != value:
        if int(lower) > value:
            lower = math.nextafter(lower, -math.inf)
        residual = value - int(lower)
    (bits,) = _BITS.unpack(_DOUBLE.pack(lower + 0.0))
    sortable = _BITS.pack(bits ^ (0xFFFFFFFFFFFFFFFF if bits & _SIGN else _SIGN))
    return sortable + _RESIDUAL.pack(residual) if residual else sortable


def _decode_number(encoded: bytes) -> int | float:
    (bits,) = _BITS.unpack(encoded[:8])
    (number,) = _DOUBLE.unpack(_BITS.pack(bits ^ (_SIGN if bits & _SIGN else 0xFFFFFFFFFFFFFFFF)))
    if len(encoded) > 8:
        return int(number) + int(_RESIDUAL.unpack(encoded[8:])[0])
    return int(number) if number.is_integer() and abs(number) < 2**63 else float(number)


def flatten(metadata: dict[str, Any]) -> dict[str, list[bytes]]:
    """Map each field path to the sortable bytes of everything that a filter may ask about it.

    A nested object is reached as `a.b`; a key that literally is `a.b` wins over the path, and of two keys that begin a
    path the longer wins. A list gives a marker (so that `$exists` sees it) and its distinct scalar elements; null and
    objects give a marker.
    """
    fields: dict[str, list[bytes]] = {}
    nested: list[tuple[str, dict[str, Any]]] = []
    _add_all(fields, nested, "", metadata)
    while nested:
        path, value = nested.pop()
        _add_all(fields, nested, f"{path}.", value)
    return fields


def _add_all(
    fields: dict[str, list[bytes]], nested: list[tuple[str, dict[str, Any]]], prefix: str, values: dict[str, Any]
) -> None:
    objects: list[tuple[str, dict[str, Any]]] = []
    for key, value in values.items():
        path = prefix + key
        if path not in fields:
            _add(fields, path, value)
        if isinstance(value, dict):
            objects.append((path, value))
    # The last of `nested` is taken first, so that the longest key wins whatever the order of keys in the JSON.
    nested += sorted(objects, key=lambda each: len(each[0])) if len(objects) > 1 else objects


def _add(fields: dict[str, list[bytes]], path: str, value: Any) -> None:
    if isinstance(value, bool | int | float | str):
        fields[path] = [encode_value(value)]
    elif isinstance(value, list):
        elements = {encode_element(item) for item in value if isinstance(item, bool | int | float | str)}
        fields[path] = [LIST, *sorted(elements)]
    elif isinstance(value, dict):
        fields[path] = [OBJECT]
    else:
        fields[path] = [NULL]
