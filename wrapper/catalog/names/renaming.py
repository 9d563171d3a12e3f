"""Renames of collections, inside the caller's transaction. Nothing but the name and the revision changes."""

from __future__ import annotations

from schemas.records import Collection
from schemas.storage.outcomes import WriteOutcome
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state.adoptions import writable
from wrapper.catalog.names.taken import check_free, check_own_name
from wrapper.catalog.rows import find_collection


def rename(transaction: Transaction, name: str, new_name: str) -> tuple[Collection, WriteOutcome]:
    """Rename a collection. Its aliases stay with it.

    Raises ConflictError when a collection or an alias has the new name, or when `name` is an alias.
    """
    collection = writable(transaction, name)
    check_own_name(collection, name)
    if new_name != name:
        check_free(transaction, new_name)
        transaction.run(
            "UPDATE collections SET name = ?, revision = revision + 1 WHERE key = ?", (new_name, collection.key)
        )
    renamed = find_collection(transaction, new_name)
    return renamed, WriteOutcome(revision=renamed.revision, outbox_id=None)
