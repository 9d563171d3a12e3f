"""Documents that the engine cannot take, and why: stored like all others, but not in their collection's index.

A row goes with its document, and when the document changes: the new version is tried as in every write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from schemas.storage.index_reports import SetAside
from wrapper.catalog.contract import Transaction

SHOWN = 100
"""The most documents that one answer names."""


def put(
    transaction: Transaction,
    collection_key: int,
    refused: Mapping[int, str],
    *,
    up_to_entry: int,
    engine: str,
    now_seconds: float,
) -> None:
    """Set documents aside, given by position with the reasons. Documents that are gone are passed over.

    `up_to_entry` is the newest outbox entry whose version was tried, `engine` the release that was tried.
    """
    take_back(transaction, refused)
    for position, reason in refused.items():
        transaction.run(
            "INSERT INTO set_aside (position, collection_key, reason, since_seconds, up_to_entry, engine) "
            "SELECT position, collection_key, ?, ?, ?, ? FROM documents WHERE position = ? AND collection_key = ?",
            (reason, now_seconds, up_to_entry, engine, position, collection_key),
        )


def take_back(transaction: Transaction, positions: Iterable[int]) -> None:
    """Forget that documents were set aside: the engine has taken them after all."""
    transaction.run_many("DELETE FROM set_aside WHERE position = ?", [(position,) for position in positions])


def replace_all(transaction: Transaction, collection_key: int, *, up_to_entry: int) -> None:
    """Forget the documents tried in versions up to an entry: the whole collection has been tried again."""
    transaction.run(
        "DELETE FROM set_aside WHERE collection_key = ? AND up_to_entry <= ?", (collection_key, up_to_entry)
    )


def forget(transaction: Transaction, collection_key: int) -> None:
    transaction.run("DELETE FROM set_aside WHERE collection_key = ?", (collection_key,))


def up_to_entries(transaction: Transaction, collection_key: int) -> dict[int, int]:
    """Return, by position, the newest entry that was tried of each document set aside in a collection."""
    rows = transaction.rows("SELECT position, up_to_entry FROM set_aside WHERE collection_key = ?", (collection_key,))
    return {row[0]: row[1] for row in rows}


def ids_of(transaction: Transaction, collection_key: int, *, limit: int) -> list[str]:
    rows = transaction.rows(
        "SELECT d.id FROM set_aside s JOIN documents d ON d.position = s.position "
        "WHERE s.collection_key = ? ORDER BY s.position LIMIT ?",
        (collection_key, limit),
    )
    return [row[0] for row in rows]


def among(transaction: Transaction, collection_key: int, ids: Sequence[str]) -> list[str]:
    """Return those of the documents that are set aside, in the order of `ids`."""
    if transaction.row("SELECT 1 FROM set_aside WHERE collection_key = ? LIMIT 1", (collection_key,)) is None:
        return []
    wanted = transaction.dialect.with_ids(ids)
    rows = transaction.rows(
        "SELECT d.id FROM documents d JOIN set_aside s ON s.position = d.position "
        f"WHERE d.collection_key = ? AND {wanted.text}",
        (collection_key, *wanted.parameters),
    )
    found = {row[0] for row in rows}
    return [each for each in dict.fromkeys(ids) if each in found]


def tried_with_another(transaction: Transaction, collection_key: int, engine: str) -> list[int]:
    """Return the positions of documents that another release of the engine did not take."""
    rows = transaction.rows(
        "SELECT position FROM set_aside WHERE collection_key = ? AND engine <> ?", (collection_key, engine)
    )
    return [row[0] for row in rows]


def counts(transaction: Transaction) -> dict[int, int]:
    """Return how many documents are set aside, by collection key."""
    rows = transaction.rows("SELECT collection_key, count(*) FROM set_aside GROUP BY collection_key")
    return {row[0]: row[1] for row in rows}


def count(transaction: Transaction, collection_key: int) -> int:
    return int(transaction.value("SELECT count(*) FROM set_aside WHERE collection_key = ?", (collection_key,)))


def find(transaction: Transaction, collection_key: int | None = None) -> list[SetAside]:
    """Return the first `SHOWN` documents that are set aside, of one collection or of all."""
    mine = "" if collection_key is None else "WHERE s.collection_key = ? "
    rows = transaction.rows(
        "SELECT c.name, d.id, s.reason, s.since_seconds FROM set_aside s "
        "JOIN documents d ON d.position = s.position JOIN collections c ON c.key = s.collection_key "
        f"{mine}ORDER BY s.position LIMIT ?",
        (SHOWN,) if collection_key is None else (collection_key, SHOWN),
    )
    return [SetAside(*row) for row in rows]
