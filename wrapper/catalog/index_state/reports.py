"""Reports on each collection's index: its last check, its recall, its rebuild.

All processes share them. No request needs them, so they are written without waiting for the disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.storage.index_reports import IndexReport, IndexSummary
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state.states import READY, REBUILDING
from wrapper.catalog.rows import collections_in

COLUMNS = (
    "checked_at_seconds, documents_held, index_bytes, fault, recall_at_10, filtered_recall_at_10, recall_at_seconds, "
    "candidates, search_width, rebuild_reason, documents_rebuilt, rebuilds"
)

NOTHING_KNOWN = IndexReport()


def find(transaction: Transaction, collection_key: int) -> IndexReport:
    row = transaction.row(f"SELECT {COLUMNS} FROM index_reports WHERE collection_key = ?", (collection_key,))
    return NOTHING_KNOWN if row is None else IndexReport(*row)


def find_some(transaction: Transaction, collection_keys: Sequence[int]) -> dict[int, IndexReport]:
    """Return the reports of these collections, by their keys."""
    wanted = transaction.dialect.one_of("collection_key", list(collection_keys))
    rows = transaction.rows(
        f"SELECT collection_key, {COLUMNS} FROM index_reports WHERE {wanted.text}", wanted.parameters
    )
    return {row[0]: IndexReport(*row[1:]) for row in rows}


def summary(transaction: Transaction) -> IndexSummary:
    known = "FROM index_reports r JOIN collections c ON c.key = r.collection_key WHERE"
    lowest = transaction.rows(
        f"SELECT c.name, r.collection_key {known} r.recall_at_10 IS NOT NULL ORDER BY CASE "
        "WHEN r.filtered_recall_at_10 < r.recall_at_10 THEN r.filtered_recall_at_10 ELSE r.recall_at_10 END, c.name "
        "LIMIT 1"
    )
    return IndexSummary(
        ready=transaction.value("SELECT count(*) FROM collections WHERE index_state = ?", (READY,)),
        rebuilding=[(each, find(transaction, each.key)) for each in collections_in(transaction, REBUILDING)],
        faulty=[
            (row[0], row[1])
            for row in transaction.rows(f"SELECT c.name, r.fault {known} r.fault <> '' ORDER BY c.name")
        ],
        lowest_recall=(lowest[0][0], find(transaction, lowest[0][1])) if lowest else None,
    )


def longest_unseen(transaction: Transaction, *, passing_over: Sequence[int], trusted: int) -> list[int]:
    """Return the keys of the collections to check: all whose index is not ready, then at most `trusted` ready ones.

    In both parts the collection whose last check is longest ago comes first.
    """
    resting = transaction.dialect.one_of("c.key", list(passing_over))
    keys: list[int] = []
    for condition, limit in (("c.index_state <> ?", ""), ("c.index_state = ?", f"LIMIT {int(trusted)}")):
        rows = transaction.rows(
            "SELECT c.key FROM collections c LEFT JOIN index_reports r ON r.collection_key = c.key "
            f"WHERE {condition} AND NOT {resting.text} ORDER BY coalesce(r.checked_at_seconds, 0), c.name {limit}",
            (READY, *resting.parameters),
        )
        keys += [row[0] for row in rows]
    return keys


def write(transaction: Transaction, collection_key: int, **columns: float | int | str | None) -> None:
    """Change columns of a report. A collection that is gone gets no report."""
    transaction.run(
        "INSERT INTO index_reports (collection_key, documents_rebuilt, rebuilds) "
        "SELECT key, 0, 0 FROM collections WHERE key = ? ON CONFLICT (collection_key) DO NOTHING",
        (collection_key,),
    )
    changes = ", ".join(f"{column} = ?" for column in columns)
    transaction.run(f"UPDATE index_reports SET {changes} WHERE collection_key = ?", (*columns.values(), collection_key))


def forget_recall(transaction: Transaction, collection_key: int) -> None:
    """Forget what was measured of an index that is to be replaced."""
    transaction.run(
        "UPDATE index_reports SET recall_at_10 = NULL, filtered_recall_at_10 = NULL, recall_at_seconds = NULL, "
        "candidates = NULL WHERE collection_key = ?",
        (collection_key,),
    )


def rebuild_ended(transaction: Transaction, collection_key: int) -> None:
    transaction.run(
        "UPDATE index_reports SET rebuild_reason = NULL, fault = NULL, rebuilds = rebuilds + 1 "
        "WHERE collection_key = ?",
        (collection_key,),
    )


def forget(transaction: Transaction, collection_key: int) -> None:
    transaction.run("DELETE FROM index_reports WHERE collection_key = ?", (collection_key,))
