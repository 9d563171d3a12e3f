"""The documents that a measurement of an index may count: those that are as they were when it began."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.records import Collection
from wrapper.catalog.contract import Transaction


def newest_position(transaction: Transaction, collection: Collection) -> int:
    """Return the position of the document that was inserted last, 0 without documents."""
    newest = transaction.value("SELECT max(position) FROM documents WHERE collection_key = ?", (collection.key,))
    return int(newest or 0)


def written_since(transaction: Transaction, collection: Collection, revision: int, *, most: int) -> int:
    """Return how many documents were written after a revision, at most `most`."""
    written = "SELECT 1 FROM documents WHERE collection_key = ? AND revision > ? LIMIT ?"
    number = transaction.value(f"SELECT count(*) FROM ({written}) w", (collection.key, revision, most))
    return int(number)


def unchanged(transaction: Transaction, collection: Collection, places: Sequence[int]) -> set[int]:
    """Return those of the positions whose documents are there, and were not written since `collection` was read."""
    wanted = transaction.dialect.one_of("position", places)
    rows = transaction.rows(
        f"SELECT position FROM documents WHERE collection_key = ? AND revision <= ? AND {wanted.text}",
        (collection.key, collection.revision, *wanted.parameters),
    )
    return {row[0] for row in rows}
