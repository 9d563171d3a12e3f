"""The writes that the engine has yet to be told of: a query compares their documents beside the engine's candidates."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.records import Collection
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import outbox, set_aside

PENDING_ENTRIES = 256
MAX_PENDING_IDS = 4_096


@dataclass(frozen=True, slots=True)
class Waiting:
    """The writes that the engine has yet to be told of: entries that raised the revision, and their documents."""

    entries: frozenset[int]
    ids: list[str]


def waiting_of(transaction: Transaction, collection: Collection) -> Waiting | None:
    """Return the documents that the engine has yet to be told of or cannot take.

    Returns None when they are too many to be compared one by one.
    """
    entries = outbox.of_collection(transaction, collection.key, limit=PENDING_ENTRIES)
    ids = {
        str(document_id)
        for entry in entries
        if entry.kind == outbox.DOCUMENTS
        for document_id in [*(changed for changed, _ in entry.payload["upsert"]), *entry.payload["delete"]]
    }
    ids.update(set_aside.ids_of(transaction, collection.key, limit=MAX_PENDING_IDS + 1))
    too_many = len(entries) == PENDING_ENTRIES or len(ids) > MAX_PENDING_IDS
    if too_many or any(entry.kind == outbox.EMPTY for entry in entries):
        return None
    writes = frozenset(
        entry.id
        for entry in entries
        if entry.kind in (outbox.DOCUMENTS, outbox.METADATA)
        and not entry.payload.get("again")
        and not entry.payload.get("further")
    )
    return Waiting(writes, sorted(ids))
