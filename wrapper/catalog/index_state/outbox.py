"""The outbox: what the engine has still to be told, written in the transaction that made it true.

An entry names what changed, not the new state: whoever applies it reads the current state and makes the engine equal to
it. Applying an entry twice, or after a later one, therefore does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from wrapper.catalog.contract import Transaction
from wrapper.catalog.rows import draw

CREATE, METADATA, DROP, EMPTY, DOCUMENTS = "create", "metadata", "drop", "empty", "documents"
CHECK, REBUILD = "check", "rebuild"
"""The kinds of entries by which an operator asks the doctor for something, in its place among the writes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One write that the engine has still to be told of.

    For `documents`, `upsert` is [(id, metadata keys of the version before, None when there was none)], `delete` is
    [id], and `again` is true when another try and not a write raised the entry.
    """

    id: int
    collection_key: int
    kind: str
    payload: dict[str, Any]


def append(transaction: Transaction, collection_key: int, kind: str, payload: dict[str, Any]) -> int:
    """Append an entry and return its id. Ids grow and are never reused."""
    entry = draw(transaction, "outbox")
    documents = len(payload["upsert"]) + len(payload["delete"]) if kind == DOCUMENTS else 0
    transaction.run(
        "INSERT INTO outbox (id, collection_key, kind, payload, documents) VALUES (?, ?, ?, ?, ?)",
        (entry, collection_key, kind, orjson.dumps(payload), documents),
    )
    return entry


def oldest(transaction: Transaction, *, limit: int, passing_over: Sequence[int] = ()) -> list[Entry]:
    """Return the oldest entries in order, without those of the collections to pass over."""
    blocked = transaction.dialect.one_of("collection_key", list(passing_over))
    rows = transaction.rows(
        f"SELECT id, collection_key, kind, payload FROM outbox WHERE NOT {blocked.text} ORDER BY id LIMIT ?",
        (*blocked.parameters, limit),
    )
    return [_entry(row) for row in rows]


def of_collection(transaction: Transaction, collection_key: int, *, limit: int) -> list[Entry]:
    """Return the oldest entries of one collection, in order."""
    rows = transaction.rows(
        "SELECT id, collection_key, kind, payload FROM outbox WHERE collection_key = ? ORDER BY id LIMIT ?",
        (collection_key, limit),
    )
    return [_entry(row) for row in rows]


def newest_of(transaction: Transaction, collection_key: int) -> int | None:
    """Return the id of the newest waiting entry of one collection, or None when none waits."""
    row = transaction.row("SELECT max(id) FROM outbox WHERE collection_key = ?", (collection_key,))
    return row[0] if row else None


def last_reset(transaction: Transaction, collection_key: int) -> int | None:
    """Return the id of the newest waiting entry that empties or drops the collection: earlier entries are moot."""
    row = transaction.row(
        "SELECT max(id) FROM outbox WHERE collection_key = ? AND kind IN (?, ?)", (collection_key, EMPTY, DROP)
    )
    return row[0] if row else None


def payloads(transaction: Transaction, collection_key: int, kind: str) -> list[dict[str, Any]]:
    """Return the payloads of the waiting entries of a kind of one collection, in order."""
    rows = transaction.rows(
        "SELECT payload FROM outbox WHERE collection_key = ? AND kind = ? ORDER BY id", (collection_key, kind)
    )
    return [orjson.loads(row[0]) for row in rows]


def dropped(transaction: Transaction) -> list[tuple[str, str | None]]:
    """Return (name, engine's id) of each collection that is deleted but not yet dropped in the engine."""
    rows = transaction.rows("SELECT payload FROM outbox WHERE kind = ?", (DROP,))
    payloads = [orjson.loads(row[0]) for row in rows]
    return [(payload["name"], payload["engine_id"]) for payload in payloads]


def newest(transaction: Transaction) -> int:
    """Return the highest id given so far, whether its entry waits or not."""
    return int(transaction.value("SELECT value FROM counters WHERE name = 'outbox'"))


def lag(transaction: Transaction, collection_key: int | None = None) -> int:
    """Return how many entries wait, of one collection or of all."""
    if collection_key is None:
        return int(transaction.value("SELECT count(*) FROM outbox"))
    return int(transaction.value("SELECT count(*) FROM outbox WHERE collection_key = ?", (collection_key,)))


def sizes(transaction: Transaction, collection_key: int) -> tuple[int, int]:
    """Return (how many entries of a collection wait, how many documents they are about)."""
    row = transaction.row("SELECT count(*), sum(documents) FROM outbox WHERE collection_key = ?", (collection_key,))
    assert row is not None
    return int(row[0]), int(row[1] or 0)


def still_waiting(transaction: Transaction, entries: list[int]) -> set[int]:
    waiting = transaction.dialect.one_of("id", entries)
    return {row[0] for row in transaction.rows(f"SELECT id FROM outbox WHERE {waiting.text}", waiting.parameters)}


def remove(transaction: Transaction, entries: list[int]) -> None:
    doomed = transaction.dialect.one_of("id", entries)
    transaction.run(f"DELETE FROM outbox WHERE {doomed.text}", doomed.parameters)


def _entry(row: tuple[Any, ...]) -> Entry:
    return Entry(row[0], row[1], row[2], orjson.loads(row[3]))
