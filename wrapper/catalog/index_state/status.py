"""The state of an index put together from all that the catalogue knows of it."""

from __future__ import annotations

from schemas.records import Collection
from schemas.storage.index_reports import Hindrances, IndexStatus
from wrapper.catalog import stored_bytes
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import outbox, reports, set_aside, standstills, states
from wrapper.catalog.rows import IS_SHOWN


def status(transaction: Transaction, collection: Collection) -> IndexStatus:
    """Return what is known of the collection's index."""
    return IndexStatus(
        collection,
        reports.find(transaction, collection.key),
        is_rebuilding=collection.index_state == states.REBUILDING,
        waiting_writes=outbox.lag(transaction, collection.key),
        hindrances=Hindrances(
            standstills.find(transaction, collection.key),
            set_aside.count(transaction, collection.key),
            set_aside.find(transaction, collection.key),
        ),
        stored_bytes=stored_bytes.of_one(transaction, collection.name).bytes,
    )


def hindrances(transaction: Transaction) -> Hindrances:
    """Return the writes to all collections that the engine does not take."""
    refused = sum(set_aside.counts(transaction).values())
    return Hindrances(standstills.find(transaction), refused, set_aside.find(transaction))


def number_of_collections(transaction: Transaction) -> int:
    """Return how many collections there are, in all databases."""
    return int(transaction.value(f"SELECT count(*) FROM collections WHERE {IS_SHOWN}"))
