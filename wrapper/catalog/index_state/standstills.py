"""Collections whose writes wait for the index because the engine did not take them when last tried, and why.

All processes share them; no request needs them.
"""

from __future__ import annotations

from schemas.storage.index_reports import Standstill
from wrapper.catalog.contract import Transaction


def put(transaction: Transaction, collection_key: int, reason: str, now_seconds: float) -> None:
    """Record why a collection's writes wait. The time stays that of the first reason."""
    transaction.run(
        "INSERT INTO standstills (collection_key, reason, since_seconds) "
        "SELECT key, ?, ? FROM collections WHERE key = ? "
        "ON CONFLICT (collection_key) DO UPDATE SET reason = excluded.reason",
        (reason, now_seconds, collection_key),
    )


def forget(transaction: Transaction, collection_key: int) -> None:
    transaction.run("DELETE FROM standstills WHERE collection_key = ?", (collection_key,))


def forget_all(transaction: Transaction) -> None:
    transaction.run("DELETE FROM standstills")


def find(transaction: Transaction, collection_key: int | None = None, *, limit: int = 100) -> list[Standstill]:
    """Return the standstills of one collection or of all, by the name of the collection."""
    mine = "" if collection_key is None else "WHERE s.collection_key = ? "
    rows = transaction.rows(
        "SELECT c.name, s.reason, s.since_seconds FROM standstills s JOIN collections c ON c.key = s.collection_key "
        f"{mine}ORDER BY c.name LIMIT ?",
        (limit,) if collection_key is None else (collection_key, limit),
    )
    return [Standstill(*row) for row in rows]
