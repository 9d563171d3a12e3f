"""The identity of a catalogue, wherever its database is moved: a UUID drawn when the catalogue was made."""

from __future__ import annotations

from wrapper.catalog.contract import Transaction


def find(transaction: Transaction) -> str:
    return str(transaction.value("SELECT uuid FROM identity"))
