"""What is known of each collection's index: the last look at it, its recall, its rebuild. Shared by all processes;
none of it is needed to answer a request, so it is written without waiting for the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.records import Collection
from wrapper.catalog.rows import collections_in
from wrapper.catalog.states import READY, REBUILDING
from wrapper.catalog.transaction import Transaction

COLUMNS = (
    "checked_at_seconds, documents_held, index_bytes, fault, recall_at_10, recall_at_seconds, "
    "rebuild_reason, documents_rebuilt, rebuilds"
)


@dataclass(frozen=True, slots=True)
class IndexReport:
    """Times are seconds since 1970. `fault` is what the last look found wrong; `rebuild_reason` is None unless a
    rebuild is under way, of which `documents_rebuilt` are done; `rebuilds` were finished so far."""

    checked_at_seconds: float | None = None
    documents_held: int | None = None
    index_bytes: int | None = None
    fault: str | None = None
    recall_at_10: float | None = None
    recall_at_seconds: float | None = None
    rebuild_reason: str | None = None
    documents_rebuilt: int = 0
    rebuilds: int = 0


NOTHING_KNOWN = IndexReport()


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """Of all indexes: how many are `ready`, those under `rebuilding`, (name, fault) of the `faulty` ones, and (name,
    recall@10) of the one with the lowest recall."""

    ready: int
    rebuilding: list[tuple[Collection, IndexReport]]
    faulty: list[tuple[str, str]]
    lowest_recall: tuple[str, float] | None


def find(transaction: Transaction, collection_key: int) -> IndexReport:
    row = transaction.row(f"SELECT {COLUMNS} FROM index_reports WHERE collection_key = ?", (collection_key,))
    return NOTHING_KNOWN if row is None else IndexReport(*row)


def find_all(transaction: Transaction) -> dict[int, IndexReport]:
    """By collection key."""
    rows = transaction.rows(f"SELECT collection_key, {COLUMNS} FROM index_reports")
    return {row[0]: IndexReport(*row[1:]) for row in rows}


def summary(transaction: Transaction) -> IndexSummary:
    known = "FROM index_reports r JOIN collections c ON c.key = r.collection_key WHERE"
    lowest = transaction.rows(
        f"SELECT c.name, r.recall_at_10 {known} r.recall_at_10 IS NOT NULL ORDER BY r.recall_at_10, c.name LIMIT 1"
    )
    return IndexSummary(
        ready=transaction.value("SELECT count(*) FROM collections WHERE index_state = ?", (READY,)),
        rebuilding=[(each, find(transaction, each.key)) for each in collections_in(transaction, REBUILDING)],
        faulty=[
            (row[0], row[1])
            for row in transaction.rows(f"SELECT c.name, r.fault {known} r.fault <> '' ORDER BY c.name")
        ],
        lowest_recall=(lowest[0][0], lowest[0][1]) if lowest else None,
    )


def longest_unseen(transaction: Transaction, *, passing_over: Sequence[int], trusted: int) -> list[int]:
    """Keys of collections: all whose index is not ready, then those that are, `trusted` of them at most; of both those
    first whose last look is longest ago."""
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
    """Change columns of a report; no report is made for a collection that is gone."""
    transaction.run(
        "INSERT INTO index_reports (collection_key, documents_rebuilt, rebuilds) "
        "SELECT key, 0, 0 FROM collections WHERE key = ? ON CONFLICT (collection_key) DO NOTHING",
        (collection_key,),
    )
    changes = ", ".join(f"{column} = ?" for column in columns)
    transaction.run(f"UPDATE index_reports SET {changes} WHERE collection_key = ?", (*columns.values(), collection_key))


def rebuild_ended(transaction: Transaction, collection_key: int) -> None:
    transaction.run(
        "UPDATE index_reports SET rebuild_reason = NULL, fault = NULL, rebuilds = rebuilds + 1 "
        "WHERE collection_key = ?",
        (collection_key,),
    )


def forget(transaction: Transaction, collection_key: int) -> None:
    transaction.run("DELETE FROM index_reports WHERE collection_key = ?", (collection_key,))
