"""What clients say of collections as vector stores, in the catalogue's database: names, metadata, and when they end.

A collection that nobody said anything of has no row. Beside it are the places of what clients have deleted in the last
hour, so that a list which a client empties while going through it goes on behind what is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from schemas.contracts.vector_stores import StoreExpiredError, StoreFacts
from schemas.shared_database import Database, Transaction
from schemas.storage.small_tables import Condition, Part, Table, having

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


FACTS = Table("vector_stores", StoreFacts, order="collection_id", json=("metadata",))
PLACES = Table("passed_places", lambda place: place, order="id", json=("place",))


class VectorStoreFacts(Part):
    """The facts of one catalogue's stores."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database, "vector_stores", STEPS, clock=clock)

    def of_collections(self, collection_ids: Sequence[str]) -> dict[str, StoreFacts]:
        """Return what is known of collections by their ids, without those of which nobody said anything."""
        known = self._rows(FACTS, having(collection_id=tuple(collection_ids)))
        return {each.collection_id: each for each in known}

    def keep(self, collection_id: str, changes: Mapping[str, Any], *, is_new: bool = False) -> StoreFacts:
        """Change what is known of a collection, which is active now; names as the fields of `StoreFacts`."""
        now_ms, of_one = self._now_ms(), having(collection_id=collection_id)
        unknown = StoreFacts(collection_id, None, None, {}, None, now_ms if is_new else None, now_ms)

        def operation(transaction: Transaction) -> StoreFacts:
            before = FACTS.first(transaction, of_one) or unknown
            facts = replace(before, last_active_at_ms=now_ms, **changes)
            FACTS.delete(transaction, of_one)
            FACTS.insert(transaction, **asdict(facts))
            return facts

        return self._database.commit(operation)

    def note_active(self, collection_id: str, store_id: str) -> None:
        """Note that a store is active now, to the minute. Raises StoreExpiredError for one whose time has passed."""
        now_ms, of_one = self._now_ms(), having(collection_id=collection_id)
        facts = self.of_collections([collection_id]).get(collection_id)
        if self.has_expired(facts):
            raise StoreExpiredError(store_id)
        if facts is not None and now_ms - facts.last_active_at_ms >= ACTIVE_MS:
            self._database.freely.commit_quickly(
                lambda transaction: FACTS.update(transaction, of_one, last_active_at_ms=now_ms)
            )

    def has_expired(self, facts: StoreFacts | None) -> bool:
        return facts is not None and facts.expires_at_ms is not None and facts.expires_at_ms <= self._now_ms()

    def forget(self, collection_id: str) -> None:
        """Forget what was said of a collection that is gone."""
        of_one = having(collection_id=collection_id)
        self._database.freely.commit(lambda transaction: FACTS.delete(transaction, of_one))

    def pass_by(self, listing: str, element: str, place: Any) -> None:
        """Remember the place that an element, which is about to be deleted, has in a list."""
        key = {"listing": listing, "id": element[:MAX_ID_CHARACTERS]}
        passed = {"place": place, "passed_at_ms": self._now_ms()}
        self._database.freely.commit_quickly(lambda transaction: PLACES.put(transaction, key, **passed))

    def passed(self, listing: str, element: str) -> Any:
        """Return the place that a deleted element had in a list, None where nobody remembers."""
        return self._first(PLACES, having(listing=listing, id=element[:MAX_ID_CHARACTERS]))

    def sweep(self, known: Collection[str]) -> None:
        """Forget collections that are not among the `known` ids, and places that were passed long ago."""
        before_ms = self._now_ms() - PASSED_MS

        def operation(transaction: Transaction) -> None:
            PLACES.delete(transaction, Condition("passed_at_ms < ?", (before_ms,)))
            for each in FACTS.rows(transaction):
                if each.collection_id not in known:
                    FACTS.delete(transaction, having(collection_id=each.collection_id))

        self._database.freely.commit_quickly(operation)
