"""Cursors of pages, opaque to callers.

A cursor is a place in an order and not a number, so deletions make a reader skip nothing. That of a page of documents
is sealed. That of a page of collections is a name that its reader has just seen.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass

import orjson

from schemas.errors import InvalidInputError
from schemas.names import NAME_BEGINNING
from schemas.records import Collection, OrderBy
from schemas.sealed_cursors import opened, sealed
from schemas.where import Where
from wrapper.catalog.contract import Transaction

FINGERPRINT_BYTES, POSITION_BYTES = 6, 8


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last document of a page: its position and its sortable value for each field of the order (None: missing)."""

    position: int
    keys: tuple[bytes | None, ...] = ()


def encode_cursor(
    transaction: Transaction, collection: Collection, cursor: Cursor, where: Where, order_by: tuple[OrderBy, ...]
) -> str:
    keys = [None if key is None else base64.b64encode(key).decode() for key in cursor.keys]
    # Positions have one length, so that the cursor's tells nothing of the number.
    position = cursor.position.to_bytes(POSITION_BYTES)
    return sealed(transaction, _listing(collection), _fingerprint(where, order_by) + position + orjson.dumps(keys))


def decode_cursor(
    transaction: Transaction, collection: Collection, source: str, where: Where, order_by: tuple[OrderBy, ...]
) -> Cursor:
    """Return the cursor in a text.

    Raises InvalidInputError when the text is no cursor of the collection or belongs to another filter or order.
    """
    content = opened(transaction, _listing(collection), source)
    fingerprint, place = content[:FINGERPRINT_BYTES], content[FINGERPRINT_BYTES:]
    if fingerprint != _fingerprint(where, order_by):
        raise InvalidInputError(
            "The cursor belongs to another 'where' or 'order_by'", code="invalid_cursor", field="cursor"
        )
    keys = orjson.loads(place[POSITION_BYTES:])
    return Cursor(
        int.from_bytes(place[:POSITION_BYTES]), tuple(None if key is None else base64.b64decode(key) for key in keys)
    )


def encode_name_cursor(name: str, prefix: str) -> str:
    """Return the cursor for a page of collections that ends with `name`; both names are full ones."""
    return base64.urlsafe_b64encode(orjson.dumps([prefix, name])).decode().rstrip("=")


def decode_name_cursor(source: str, prefix: str) -> str:
    """Return the name in a cursor.

    Raises InvalidInputError when the text is not a cursor or belongs to another prefix.
    """
    try:
        padded = source.encode("ascii") + b"=" * (-len(source) % 4)
        asked, name = orjson.loads(base64.urlsafe_b64decode(padded))
        if not isinstance(asked, str) or not isinstance(name, str):
            raise ValueError("no name")
    except (ValueError, TypeError, binascii.Error):
        raise InvalidInputError("Invalid cursor", code="invalid_cursor", field="cursor") from None
    if asked != prefix:
        raise InvalidInputError(
            "The cursor belongs to another 'prefix' or 'database'", code="invalid_cursor", field="cursor"
        )
    if not name.startswith(prefix) or not NAME_BEGINNING.fullmatch(name.removeprefix(prefix)):
        raise InvalidInputError("Invalid cursor", code="invalid_cursor", field="cursor")
    return name


def _listing(collection: Collection) -> str:
    return f"documents of {collection.id} {collection.key}"  # a re-embedding gives other positions


def _fingerprint(where: Where, order_by: tuple[OrderBy, ...]) -> bytes:
    return hashlib.blake2b(repr((where, order_by)).encode(), digest_size=FINGERPRINT_BYTES).digest()
