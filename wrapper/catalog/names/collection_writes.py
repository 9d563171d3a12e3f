"""Writes to collections themselves, each inside the caller's transaction: making, describing, emptying, deleting."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from schemas.records import Collection, Metadata
from schemas.storage.outcomes import WriteOutcome
from wrapper.catalog import idempotency
from wrapper.catalog.changes import tombstones
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import adoptions, outbox, reports, set_aside, standstills
from wrapper.catalog.index_state.adoptions import writable
from wrapper.catalog.names.beside import beside
from wrapper.catalog.names.engine_names import engine_name
from wrapper.catalog.names.taken import check_free, check_own_name
from wrapper.catalog.rows import draw, dump_json, find_collection


def create_collection(
    transaction: Transaction,
    name: str,
    metadata: Metadata,
    metric: str,
    *,
    configuration: str | None = None,
    engine_calls_it: str | None = None,
    engine_records: str | None = None,
) -> tuple[Collection, WriteOutcome]:
    """Create an empty collection. The engine calls it by its name too, unless that is given, and has of its documents
    what the service has it have, unless that is given.

    Raises ConflictError when a collection or an alias has the name.
    """
    check_free(transaction, name)
    key, identity = draw(transaction, "collection"), str(uuid.uuid4())
    transaction.run(
        "INSERT INTO collections (key, id, name, metadata, metric, revision, count, index_state, engine_name, "
        "configuration, engine_records) VALUES (?, ?, ?, ?, ?, 1, 0, 'pending', ?, ?, ?)",
        (
            key,
            identity,
            name,
            dump_json(metadata),
            metric,
            engine_name(transaction, engine_calls_it or name, identity),
            configuration,
            engine_records,
        ),
    )
    entry = outbox.append(transaction, key, outbox.CREATE, {"name": name})
    return find_collection(transaction, name), WriteOutcome(revision=1, outbox_id=entry)


def change_collection_metadata(
    transaction: Transaction, name: str, change: Callable[[Metadata], Metadata]
) -> tuple[Collection, WriteOutcome]:
    """Change a collection's metadata.

    `change` sees the metadata of this very transaction, so parallel merges lose nothing.
    """
    collection = writable(transaction, name)
    revision = collection.revision + 1
    transaction.run(
        "UPDATE collections SET metadata = ?, revision = ? WHERE key = ?",
        (dump_json(change(collection.metadata)), revision, collection.key),
    )
    entry = outbox.append(transaction, collection.key, outbox.METADATA, {"name": name})
    return find_collection(transaction, name), WriteOutcome(revision=revision, outbox_id=entry)


def delete_collection(transaction: Transaction, name: str) -> WriteOutcome:
    """Delete a collection with its documents, its aliases and what stands beside it. Raises ConflictError when `name`
    is an alias."""
    collection = find_collection(transaction, name)
    check_own_name(collection, name)
    other = beside(transaction, collection)
    if other is not None:
        delete_collection(transaction, other.name)
    _clear(transaction, collection)
    tombstones.forget(transaction, collection.key)
    transaction.run("DELETE FROM aliases WHERE collection_key = ?", (collection.key,))
    transaction.run("DELETE FROM collections WHERE key = ?", (collection.key,))
    idempotency.forget(transaction, collection.key)
    reports.forget(transaction, collection.key)
    adoptions.forget(transaction, collection.key)
    standstills.forget(transaction, collection.key)
    entry = outbox.append(
        transaction, collection.key, outbox.DROP, {"name": collection.engine_name, "engine_id": collection.engine_id}
    )
    return WriteOutcome(revision=collection.revision + 1, outbox_id=entry, deleted=collection.count)


def empty_collection(transaction: Transaction, name: str) -> WriteOutcome:
    """Delete all documents of a collection, and of what stands beside it, and forget its dimension; its metadata
    stays."""
    collection = writable(transaction, name)
    other = beside(transaction, collection)
    if other is not None:
        empty_collection(transaction, other.name)
    tombstones.put_for_all(transaction, collection)
    _clear(transaction, collection)
    reports.forget_recall(transaction, collection.key)
    revision = collection.revision + 1
    transaction.run(
        "UPDATE collections SET count = 0, bytes = 0, dimension = NULL, revision = ? WHERE key = ?",
        (revision, collection.key),
    )
    entry = outbox.append(transaction, collection.key, outbox.EMPTY, {"name": name})
    return WriteOutcome(revision=revision, outbox_id=entry, deleted=collection.count)


def ask_doctor(transaction: Transaction, name: str, kind: str, records: str | None = None) -> int:
    """Append an outbox entry, `outbox.CHECK` or `outbox.REBUILD`, for the index of a collection. A rebuild may change
    what its `records` have, and then changes those of what stands beside it, too.

    Return the entry's id.
    """
    collection = writable(transaction, name)
    other = None if records is None else beside(transaction, collection)
    if other is not None:
        outbox.append(transaction, other.key, kind, {"name": other.name, "records": records})
    return outbox.append(transaction, collection.key, kind, {"name": name, "records": records})


def _clear(transaction: Transaction, collection: Collection) -> None:
    set_aside.forget(transaction, collection.key)
    mine = "SELECT position FROM documents WHERE collection_key = ?"
    for table in ("embeddings", "document_fields"):
        transaction.run(f"DELETE FROM {table} WHERE position IN ({mine})", (collection.key,))
    transaction.run("DELETE FROM documents WHERE collection_key = ?", (collection.key,))
    transaction.dialect.text_index.drop(transaction, collection.key)
