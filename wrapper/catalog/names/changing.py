"""Changes of collections themselves, several in one step, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schemas.records import Collection
from schemas.storage.outcomes import WriteOutcome
from wrapper.catalog.contract import Transaction
from wrapper.catalog.names import renaming
from wrapper.catalog.names.collection_writes import change_collection_metadata
from wrapper.catalog.rows import find_collection


def change(
    transaction: Transaction,
    name: str,
    new_name: str | None,
    metadata: dict[str, Any] | None,
    configuration: Callable[[Collection], str] | None,
) -> tuple[Collection, WriteOutcome]:
    """Change what is given. `configuration` makes the new one, as JSON, of the collection as it is.

    Raises ConflictError when the new name is taken.
    """
    collection = find_collection(transaction, name)
    outcome = WriteOutcome(revision=collection.revision, outbox_id=None)
    if metadata is not None:
        collection, outcome = change_collection_metadata(transaction, name, lambda _: metadata)
    if configuration is not None:
        transaction.run(
            "UPDATE collections SET configuration = ?, revision = revision + 1 WHERE key = ?",
            (configuration(collection), collection.key),
        )
    entry = outcome.outbox_id
    if new_name is not None:
        renaming.rename(transaction, name, new_name)
    after = find_collection(transaction, new_name or name)
    return after, WriteOutcome(revision=after.revision, outbox_id=entry)
