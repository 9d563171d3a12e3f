"""What the catalogue remembers of each collection's index in the engine."""

from __future__ import annotations

from wrapper.catalog.transaction import Transaction

PENDING, READY, REBUILDING = "pending", "ready", "rebuilding"


def set_index_state(transaction: Transaction, collection_key: int, state: str) -> None:
    transaction.run("UPDATE collections SET index_state = ? WHERE key = ?", (state, collection_key))


def set_engine_collection(transaction: Transaction, collection_key: int, engine_id: str, state: str) -> None:
    transaction.run(
        "UPDATE collections SET engine_id = ?, index_state = ? WHERE key = ?", (engine_id, state, collection_key)
    )
