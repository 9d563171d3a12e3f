"""What a copy of a collection still lacks: new documents in their order, changed ones, and those that are gone."""

from __future__ import annotations

from schemas.records import Collection, Document
from wrapper.catalog.contract import Transaction
from wrapper.catalog.rows import DOCUMENT, to_document

LAST_POSITION = 2**62
"""A position after that of every document."""


def new_documents(transaction: Transaction, source: Collection, after: int, limit: int) -> list[Document]:
    """Return the next `limit` documents after a position, in the order of insertion."""
    rows = transaction.rows(
        f"SELECT {DOCUMENT} FROM documents d WHERE d.collection_key = ? AND d.position > ? ORDER BY d.position LIMIT ?",
        (source.key, after, limit),
    )
    return [to_document(row) for row in rows]


def changed_documents(
    transaction: Transaction, source: Collection, since: tuple[int, int], up_to: int, limit: int
) -> list[tuple[Document, int]]:
    """Return (document, revision) of the next `limit` documents up to a position that were changed since a place,
    (revision, position), in the order of these places."""
    rows = transaction.rows(
        f"SELECT {DOCUMENT}, d.revision FROM documents d WHERE d.collection_key = ? "
        "AND (d.revision, d.position) > (?, ?) AND d.position <= ? ORDER BY d.revision, d.position LIMIT ?",
        (source.key, *since, up_to, limit),
    )
    return [(to_document(row), row[-1]) for row in rows]


def count_left(transaction: Transaction, source: Collection, since: tuple[int, int], up_to: int) -> int:
    """Return how many documents there are after a position, and how many up to it that were changed since a place."""
    new = "SELECT count(*) FROM documents WHERE collection_key = ? AND position > ?"
    changed = (
        "SELECT count(*) FROM documents WHERE collection_key = ? AND (revision, position) > (?, ?) AND position <= ?"
    )
    counted = transaction.value(new, (source.key, up_to)), transaction.value(changed, (source.key, *since, up_to))
    return sum(counted)


def surplus(transaction: Transaction, copy: Collection, source: Collection, limit: int) -> list[str]:
    """Return at most `limit` ids of documents that a copy has and its source has not."""
    rows = transaction.rows(
        "SELECT d.id FROM documents d WHERE d.collection_key = ? AND NOT EXISTS "
        "(SELECT 1 FROM documents s WHERE s.collection_key = ? AND s.id = d.id) LIMIT ?",
        (copy.key, source.key, limit),
    )
    return [row[0] for row in rows]
