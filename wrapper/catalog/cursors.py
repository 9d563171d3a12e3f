"""Cursors of pages, opaque to callers.

A cursor is a place in an order and not a number, so deletions make a reader skip nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass

import orjson

from schemas.errors import InvalidInputError
from schemas.names import NAME_BEGINNING
from schemas.records import OrderBy
from schemas.where import Where


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last document of a page: its position and its sortable value for each field of the order (None: missing)."""

    position: int
    keys: tuple[bytes | None, ...] = ()


def encode_cursor(cursor: Cursor, where: Where, order_by: tuple[OrderBy, ...]) -> str:
    keys = [None if key is None else base64.b64encode(key).decode() for key in cursor.keys]
    content = orjson.dumps([_fingerprint(where, order_by), cursor.position, keys])
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decode_cursor(source: str, where: Where, order_by: tuple[OrderBy, ...]) -> Cursor:
    """Return the cursor in a text.

    Raises InvalidInputError when the text is not a cursor or belongs to another filter or order.
    """
    try:
        padded = source.encode("ascii") + b"=" * (-len(source) % 4)
        fingerprint, position, keys = orjson.loads(base64.urlsafe_b64decode(padded))
        cursor = Cursor(
            int(position), tuple(None if key is None else base64.b64decode(key, validate=True) for key in keys)
        )
        if not 0 <= cursor.position < 2**63:
            raise ValueError("no position")
    except (ValueError, TypeError, OverflowError, binascii.Error):
        raise InvalidInputError("Invalid cursor", code="invalid_cursor", field="cursor") from None
    if fingerprint != _fingerprint(where, order_by) or len(cursor.keys) != len(order_by):
        raise InvalidInputError(
            "The cursor belongs to another 'where' or 'order_by'", code="invalid_cursor", field="cursor"
        )
    return cursor


def encode_name_cursor(name: str, prefix: str) -> str:
    """Return the cursor for a page of collections that ends with `name`."""
    return base64.urlsafe_b64encode(orjson.dumps([prefix, name])).decode().rstrip("=")


def decode_name_cursor(source: str, prefix: str) -> str:
    """Return the name in a cursor.

    Raises InvalidInputError when the text is not a cursor or belongs to another prefix.
    """
    try:
        padded = source.encode("ascii") + b"=" * (-len(source) % 4)
        asked, name = orjson.loads(base64.urlsafe_b64decode(padded))
        if not isinstance(name, str) or not NAME_BEGINNING.fullmatch(name):
            raise ValueError("no name")
    except (ValueError, TypeError, binascii.Error):
        raise InvalidInputError("Invalid cursor", code="invalid_cursor", field="cursor") from None
    if asked != prefix:
        raise InvalidInputError("The cursor belongs to another 'prefix'", code="invalid_cursor", field="cursor")
    return name


def _fingerprint(where: Where, order_by: tuple[OrderBy, ...]) -> str:
    return hashlib.blake2b(repr((where, order_by)).encode(), digest_size=6).hexdigest()
