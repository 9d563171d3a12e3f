"""The identity of a catalogue, wherever its database is moved: a UUID drawn when the catalogue was made."""

from __future__ import annotations

from wrapper.catalog.contract import Transaction


def find(transaction: Transaction) -> str:
    return str(transaction.value("SELECT uuid FROM identity"))


def history(transaction: Transaction) -> str:
    """Return what tells the revisions of this catalogue's collections from those of its copies: a catalogue that was
    restored from a backup may come to the same revisions with other documents."""
    return str(transaction.value("SELECT id FROM histories"))
