"""What is known of each collection's index: the last look at it, its recall, its rebuild. Shared by all processes;
none of it is needed to answer a request, so it is written without waiting for the disk."""

from __future__ import annotations

from dataclasses import dataclass

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


def find(transaction: Transaction, collection_key: int) -> IndexReport:
    row = transaction.row(f"SELECT {COLUMNS} FROM index_reports WHERE collection_key = ?", (collection_key,))
    return NOTHING_KNOWN if row is None else IndexReport(*row)


def find_all(transaction: Transaction) -> dict[int, IndexReport]:
    """By collection key."""
    rows = transaction.rows(f"SELECT collection_key, {COLUMNS} FROM index_reports")
    return {row[0]: IndexReport(*row[1:]) for row in rows}


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
