"""Adoptions of collections that the engine has and the catalogue lacks: begun, followed, completed.

`adoptions` has a row for each collection under adoption, and keeps the rows of collections that had to leave documents
out.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from schemas.errors import AdoptingError
from schemas.records import Collection, Metadata
from schemas.storage.engine_records import FULL
from schemas.storage.index_reports import Adoption
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import outbox, states
from wrapper.catalog.rows import STANDS_FOR, draw, dump_json, find_collection


def begin(
    transaction: Transaction, name: str, metadata: Metadata, metric: str, *, engine_id: str, documents: int
) -> int | None:
    """Create an empty collection under adoption, whose index is complete already, and return its key.

    Returns None when the name or the index belongs to another collection. The same holds for a deleted collection that
    the engine has yet to drop, which must not come back.
    """
    if any(name == gone or engine_id == its_id for gone, its_id in outbox.dropped(transaction)):
        return None
    known = "SELECT 1 FROM collections WHERE name = ? OR engine_name = ? OR engine_id = ?"
    if transaction.row(known, (name, name, engine_id)) or transaction.row(f"{STANDS_FOR} alias = ?", (name,)):
        return None
    key = draw(transaction, "collection")
    transaction.run(
        "INSERT INTO collections (key, id, name, metadata, metric, revision, count, engine_id, index_state, "
        "engine_name, engine_records) VALUES (?, ?, ?, ?, ?, 1, 0, ?, ?, ?, ?)",
        (key, str(uuid.uuid4()), name, dump_json(metadata), metric, engine_id, states.ADOPTING, name, FULL),
    )
    transaction.run(
        "INSERT INTO adoptions (collection_key, documents, left_out) VALUES (?, ?, 0)",
        (key, documents),
    )
    return key


def set_total(transaction: Transaction, collection_key: int, documents: int) -> None:
    transaction.run("UPDATE adoptions SET documents = ? WHERE collection_key = ?", (documents, collection_key))


def known_ids(transaction: Transaction, collection_key: int, ids: Sequence[str]) -> set[str]:
    """Return the ids of those documents that are adopted already."""
    wanted = transaction.dialect.with_ids(ids)
    rows = transaction.rows(
        f"SELECT d.id FROM documents d WHERE d.collection_key = ? AND {wanted.text}",
        (collection_key, *wanted.parameters),
    )
    return {row[0] for row in rows}


def complete(transaction: Transaction, collection_key: int, *, left_out: int) -> None:
    """End an adoption: everything that can be adopted has been.

    When documents were left out the collection has no index any more: the engine's stays as it is, and the collection
    gets one of its own.
    """
    has_index = left_out == 0
    transaction.run(
        "UPDATE collections SET index_state = ?, engine_id = CASE WHEN ? THEN engine_id END, revision = revision + 1 "
        "WHERE key = ? AND index_state = ?",
        (states.PENDING if has_index else states.REBUILDING, has_index, collection_key, states.ADOPTING),
    )
    if has_index:
        forget(transaction, collection_key)
    else:
        transaction.run("UPDATE adoptions SET left_out = ? WHERE collection_key = ?", (left_out, collection_key))


def forget(transaction: Transaction, collection_key: int) -> None:
    transaction.run("DELETE FROM adoptions WHERE collection_key = ?", (collection_key,))


def report(transaction: Transaction) -> list[Adoption]:
    """Return all adoptions that are not complete and those that left documents out, by the name of the collection."""
    rows = transaction.rows(
        "SELECT c.name, c.count, a.documents, a.left_out, c.index_state FROM adoptions a "
        "JOIN collections c ON c.key = a.collection_key ORDER BY c.name"
    )
    return [Adoption(name, count, of, left_out, state != states.ADOPTING) for name, count, of, left_out, state in rows]


def writable(transaction: Transaction, name: str) -> Collection:
    """Return the collection of that name or alias. Raises CollectionNotFoundError or, while it is adopted,
    AdoptingError with the progress."""
    collection = find_collection(transaction, name)
    if collection.index_state != states.ADOPTING:
        return collection
    of = transaction.value("SELECT documents FROM adoptions WHERE collection_key = ?", (collection.key,))
    raise AdoptingError(
        f"Collection '{collection.name}' is being taken in from the engine, {collection.count} of {of} documents so "
        "far: it can be read now and written to when that is complete",
        collection=collection.name,
        documents=collection.count,
        of=of,
    )
