"""The state of each collection's index in the engine, as the catalogue remembers it."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.storage.engine_records import FULL
from wrapper.catalog.contract import Transaction

PENDING, READY, REBUILDING, ADOPTING = "pending", "ready", "rebuilding", "adopting"
"""The states of an index. Queries ask the index of a collection that is `ready`. `pending`: the collection has no index
yet, or nobody has checked it since the engine started. `adopting`: the catalogue does not have all documents of the
collection yet."""


def set_index_state(transaction: Transaction, collection_key: int, state: str) -> None:
    transaction.run("UPDATE collections SET index_state = ? WHERE key = ?", (state, collection_key))


def set_engine_collection(
    transaction: Transaction, collection_key: int, engine_id: str, state: str, records: str = FULL
) -> bool:
    """Record the engine collection that holds a collection's index, and what its records have. Return False when the
    collection is gone."""
    changed = transaction.row(
        "UPDATE collections SET engine_id = ?, index_state = ?, engine_records = ? WHERE key = ? RETURNING key",
        (engine_id, state, records, collection_key),
    )
    return changed is not None


def set_engine_records(transaction: Transaction, collection_key: int, records: str | None, *, otherwise: str) -> None:
    """Record what the records of the index have that is about to be made: `records`, where that is None the same as
    before, and `otherwise` where there was none."""
    change = "UPDATE collections SET engine_records = coalesce(?, engine_records, ?) WHERE key = ?"
    transaction.run(change, (records, otherwise, collection_key))


def number_with_texts(transaction: Transaction) -> int:
    """Return how many collections have documents whose texts and metadata the engine has, too."""
    return int(transaction.value("SELECT count(*) FROM collections WHERE engine_records = ? AND count > 0", (FULL,)))


def distrust_all(transaction: Transaction) -> None:
    """Make every ready index pending: none is asked until it has been checked."""
    transaction.run("UPDATE collections SET index_state = ? WHERE index_state = ?", (PENDING, READY))


def doubts_empty(transaction: Transaction) -> bool:
    """Return whether some collection without documents has an index that nobody has checked."""
    found = transaction.row("SELECT 1 FROM collections WHERE index_state = ? AND count = 0 LIMIT 1", (PENDING,))
    return found is not None


def trust_empty(transaction: Transaction, engine_ids: Sequence[str]) -> list[int]:
    """Make the indexes of these empty engine collections ready, and return the keys of their collections.

    Only collections count whose index nobody has checked, that are empty too and for which nothing waits in the outbox.
    """
    listed = transaction.dialect.one_of("engine_id", engine_ids)
    rows = transaction.rows(
        f"UPDATE collections SET index_state = ? WHERE index_state = ? AND count = 0 AND {listed.text} "
        "AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.collection_key = collections.key) RETURNING key",
        (READY, PENDING, *listed.parameters),
    )
    return [row[0] for row in rows]
