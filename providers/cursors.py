"""Going through all pages; and cursors for services that say themselves where the next page begins, opaque and bound
to their filter."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import orjson

from schemas.errors import InvalidInputError
from schemas.where import Where

Place = int | str
T = TypeVar("T")


def through_pages(read: Callable[[str | None], tuple[Iterable[T], str | None]]) -> Iterator[T]:
    """Yield what is on all pages, read as they are consumed. `read` returns what the page of a cursor has, None for the
    first, and the cursor of the next page, None at the end."""
    cursor = None
    while True:
        items, cursor = read(cursor)
        yield from items
        if cursor is None:
            return


def encode_cursor(place: Place, where: object) -> str:
    """Return the cursor of the page that begins at `place`. `where` is the filter, or whatever else must stay the same
    from page to page."""
    content = orjson.dumps([_fingerprint(where), place])
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decode_cursor(cursor: str, where: object) -> Place:
    """Return the place of a cursor. Raises InvalidInputError when the text is not a cursor of this filter."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        fingerprint, place = orjson.loads(base64.urlsafe_b64decode(padded))
        if isinstance(place, bool) or not isinstance(place, int | str) or place == "":
            raise ValueError("no place")
    except (ValueError, TypeError, binascii.Error):
        raise InvalidInputError("Invalid cursor", code="invalid_cursor", field="cursor") from None
    if fingerprint != _fingerprint(where):
        raise InvalidInputError("The cursor belongs to other filters", code="invalid_cursor", field="cursor")
    return place


def decode_offset(cursor: str | None, where: Where) -> int:
    """Return the number of documents before the page, 0 without a cursor. Raises InvalidInputError when the cursor is
    not one of this filter."""
    place = 0 if cursor is None else decode_cursor(cursor, where)
    if not isinstance(place, int) or place < 0:
        raise InvalidInputError("Invalid cursor", code="invalid_cursor", field="cursor")
    return place


def _fingerprint(where: object) -> str:
    return hashlib.blake2b(repr(where).encode(), digest_size=6).hexdigest()
