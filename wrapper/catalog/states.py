"""What the catalogue remembers of each collection's index in the engine."""

from __future__ import annotations

from collections.abc import Sequence

from wrapper.catalog.transaction import Transaction

PENDING, READY, REBUILDING, ADOPTING = "pending", "ready", "rebuilding", "adopting"
"""Queries ask the index of a collection that is `ready`. `pending`: it has none yet, or nobody has looked at it since
the engine started. `adopting`: the catalogue does not have all of its documents yet."""


def set_index_state(transaction: Transaction, collection_key: int, state: str) -> None:
    transaction.run("UPDATE collections SET index_state = ? WHERE key = ?", (state, collection_key))


def set_engine_collection(transaction: Transaction, collection_key: int, engine_id: str, state: str) -> bool:
    """False when the collection is gone."""
    changed = transaction.row(
        "UPDATE collections SET engine_id = ?, index_state = ? WHERE key = ? RETURNING key",
        (engine_id, state, collection_key),
    )
    return changed is not None


def distrust_all(transaction: Transaction) -> None:
    """No index is asked until somebody has looked at it."""
    transaction.run("UPDATE collections SET index_state = ? WHERE index_state = ?", (PENDING, READY))


def doubts_empty(transaction: Transaction) -> bool:
    """Whether nobody has looked at the index of some collection without documents."""
    found = transaction.row("SELECT 1 FROM collections WHERE index_state = ? AND count = 0 LIMIT 1", (PENDING,))
    return found is not None


def trust_empty(transaction: Transaction, engine_ids: Sequence[str]) -> list[int]:
    """The indexes of these engine collections, which are empty, are what they should be: those of collections that are
    empty too and for which nothing waits in the outbox. Returns the keys of those that nobody had looked at."""
    listed = transaction.dialect.one_of("engine_id", engine_ids)
    rows = transaction.rows(
        f"UPDATE collections SET index_state = ? WHERE index_state = ? AND count = 0 AND {listed.text} "
        "AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.collection_key = collections.key) RETURNING key",
        (READY, PENDING, *listed.parameters),
    )
    return [row[0] for row in rows]
