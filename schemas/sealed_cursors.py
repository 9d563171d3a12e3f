"""Cursors that say nothing to those who get them, and that nobody else can make.

A cursor stands for a position among rows of which its bearer may see only some: the bare number would tell how many the
others are. The key is in the catalogue's database, so that all services of a catalogue understand each other's cursors.
"""

from __future__ import annotations

import base64

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from schemas.errors import InvalidInputError
from schemas.shared_database import Transaction

KEY_BITS = 256


def new_key() -> bytes:
    return AESSIV.generate_key(KEY_BITS)


def sealed(transaction: Transaction, listing: str, content: bytes) -> str:
    """Return the cursor of a listing with this content, which is the same each time.

    Its length tells the length of the content.
    """
    cursor = _cipher(transaction).encrypt(content, [listing.encode()])
    return base64.urlsafe_b64encode(cursor).decode().rstrip("=")


def opened(transaction: Transaction, listing: str, cursor: str) -> bytes:
    """Return the content of a cursor. Raises InvalidInputError when the text is none of this listing."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return _cipher(transaction).decrypt(base64.urlsafe_b64decode(padded), [listing.encode()])
    except (ValueError, InvalidTag):
        raise InvalidInputError("Invalid cursor", code="invalid_cursor", field="cursor") from None


def _cipher(transaction: Transaction) -> AESSIV:
    row = transaction.row("SELECT key FROM cursor_keys")
    assert row is not None
    return AESSIV(bytes(row[0]))
