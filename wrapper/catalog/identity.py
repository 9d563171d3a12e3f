"""Which catalogue this is, wherever its database is moved: a number drawn when it was made."""

from __future__ import annotations

from wrapper.catalog.transaction import Transaction


def find(transaction: Transaction) -> str:
    return str(transaction.value("SELECT uuid FROM identity"))
