"""What clients say of collections as vector stores, in the catalogue's database: names, metadata, and when they end.

A collection that nobody said anything of has no row. Beside it are the places of what clients have deleted in the last
hour, so that a list which a client empties while going through it goes on behind what is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import orjson

from schemas.contracts.vector_stores import StoreFacts
from schemas.shared_database import Database, Transaction

STEPS = (
    (
        """CREATE TABLE vector_stores (
            collection_id VARCHAR(40) PRIMARY KEY, name {text}, description {text}, metadata {text} NOT NULL,
            expires_days INTEGER, created_at_ms BIGINT, last_active_at_ms BIGINT NOT NULL
        )""",
        """CREATE TABLE passed_places (
            listing VARCHAR(100) NOT NULL, id VARCHAR(700) NOT NULL, place {text} NOT NULL,
            passed_at_ms BIGINT NOT NULL, PRIMARY KEY (listing, id)
        )""",
    ),
)
ACTIVE_MS = 60_000
"""How exactly the last activity is kept."""
PASSED_MS = 3_600_000
MAX_ID_CHARACTERS = 700
_FACTS = (
    "SELECT collection_id, name, description, metadata, expires_days, created_at_ms, last_active_at_ms "
    "FROM vector_stores"
)


class VectorStoreFacts:
    """The facts of one catalogue's stores; safe for use by several threads and processes.

    `clock` returns seconds since the epoch.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        database.open_part("vector_stores", STEPS)

    def all(self) -> dict[str, StoreFacts]:
        """Return what is known, by the ids of the collections."""
        with self._database.read() as transaction:
            return {row[0]: _facts(row) for row in transaction.rows(_FACTS)}

    def one(self, collection_id: str) -> StoreFacts | None:
        """Return what is known of a collection, None where nobody said anything."""
        with self._database.read() as transaction:
            return _find(transaction, collection_id)

    def keep(self, collection_id: str, changes: Mapping[str, Any], *, is_new: bool = False) -> StoreFacts:
        """Change what is known of a collection, which is active now; names as the fields of `StoreFacts`."""
        now_ms = self._now_ms()

        def operation(transaction: Transaction) -> StoreFacts:
            before = _find(transaction, collection_id)
            known: dict[str, Any] = {
                "name": before and before.name,
                "description": before and before.description,
                "metadata": before.metadata if before else {},
                "expires_days": before and before.expires_days,
                "created_at_ms": before.created_at_ms if before else now_ms if is_new else None,
            }
            known |= changes
            transaction.run("DELETE FROM vector_stores WHERE collection_id = ?", (collection_id,))
            transaction.run(
                "INSERT INTO vector_stores (collection_id, name, description, metadata, expires_days, created_at_ms, "
                "last_active_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    *(collection_id, known["name"], known["description"]),
                    *(orjson.dumps(known["metadata"]).decode(), known["expires_days"], known["created_at_ms"], now_ms),
                ),
            )
            return StoreFacts(collection_id, last_active_at_ms=now_ms, **known)

        return self._database.commit(operation)

    def touch(self, facts: StoreFacts) -> None:
        """Note that a store is active now, to the minute."""
        now_ms = self._now_ms()
        if now_ms - facts.last_active_at_ms >= ACTIVE_MS:
            self._database.freely.commit_quickly(
                lambda transaction: transaction.run(
                    "UPDATE vector_stores SET last_active_at_ms = ? WHERE collection_id = ?",
                    (now_ms, facts.collection_id),
                )
            )

    def has_expired(self, facts: StoreFacts | None) -> bool:
        return facts is not None and facts.expires_at_ms is not None and facts.expires_at_ms <= self._now_ms()

    def forget(self, collection_id: str) -> None:
        """Forget what was said of a collection that is gone."""
        self._database.freely.commit(
            lambda transaction: transaction.run("DELETE FROM vector_stores WHERE collection_id = ?", (collection_id,))
        )

    def pass_by(self, listing: str, element: str, place: Any) -> None:
        """Remember the place that an element, which is about to be deleted, has in a list."""
        row = (listing, element[:MAX_ID_CHARACTERS], orjson.dumps(place).decode(), self._now_ms())

        def operation(transaction: Transaction) -> None:
            transaction.run("DELETE FROM passed_places WHERE listing = ? AND id = ?", row[:2])
            transaction.run("INSERT INTO passed_places (listing, id, place, passed_at_ms) VALUES (?, ?, ?, ?)", row)

        self._database.freely.commit_quickly(operation)

    def passed(self, listing: str, element: str) -> Any:
        """Return the place that a deleted element had in a list, None where nobody remembers."""
        with self._database.read() as transaction:
            row = transaction.row(
                "SELECT place FROM passed_places WHERE listing = ? AND id = ?", (listing, element[:MAX_ID_CHARACTERS])
            )
        return None if row is None else orjson.loads(row[0])

    def sweep(self, known: Collection[str]) -> None:
        """Forget collections that are not among the `known` ids, and places that were passed long ago."""
        gone = [collection_id for collection_id in self.all() if collection_id not in known]
        before_ms = self._now_ms() - PASSED_MS

        def operation(transaction: Transaction) -> None:
            transaction.run("DELETE FROM passed_places WHERE passed_at_ms < ?", (before_ms,))
            for collection_id in gone:
                transaction.run("DELETE FROM vector_stores WHERE collection_id = ?", (collection_id,))

        self._database.freely.commit_quickly(operation)

    def _now_ms(self) -> int:
        return round(self._clock() * 1e3)


def _find(transaction: Transaction, collection_id: str) -> StoreFacts | None:
    row = transaction.row(f"{_FACTS} WHERE collection_id = ?", (collection_id,))
    return None if row is None else _facts(row)


def _facts(row: tuple[Any, ...]) -> StoreFacts:
    collection_id, name, description, metadata, *others = row
    return StoreFacts(collection_id, name, description, orjson.loads(metadata), *others)
