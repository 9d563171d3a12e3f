"""Collections that are taken in from the engine: begun, followed, completed.

`adoptions` has a row for each collection under adoption, and keeps those of which documents had to be left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.errors import AdoptingError
from schemas.records import Collection, Metadata
from wrapper.catalog import outbox, states
from wrapper.catalog.rows import draw, dump_json
from wrapper.catalog.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Adoption:
    """`of`: how many documents the engine had when it was last counted; `left_out`: those that the catalogue cannot
    hold, known when the adoption is complete."""

    collection: str
    documents: int
    of: int
    left_out: int
    is_complete: bool


def begin(
    transaction: Transaction, name: str, metadata: Metadata, metric: str, *, engine_id: str, documents: int
) -> int | None:
    """The key of a new, empty collection whose index is complete already. None when its name or its index belongs to
    another collection, or to a deleted one of which the engine has not been told: that must not come back."""
    if any(name == gone or engine_id == its_id for gone, its_id in outbox.dropped(transaction)):
        return None
    if transaction.row("SELECT 1 FROM collections WHERE name = ? OR engine_id = ?", (name, engine_id)):
        return None
    key = draw(transaction, "collection")
    transaction.run(
        "INSERT INTO collections (key, id, name, metadata, metric, revision, count, engine_id, index_state) "
        "VALUES (?, ?, ?, ?, ?, 1, 0, ?, ?)",
        (key, str(uuid.uuid4()), name, dump_json(metadata), metric, engine_id, states.ADOPTING),
    )
    transaction.run(
        "INSERT INTO adoptions (collection_key, documents, left_out) VALUES (?, ?, 0)",
        (key, documents),
    )
    return key


def set_total(transaction: Transaction, collection_key: int, documents: int) -> None:
    transaction.run("UPDATE adoptions SET documents = ? WHERE collection_key = ?", (documents, collection_key))


def known_ids(transaction: Transaction, collection_key: int, ids: Sequence[str]) -> set[str]:
    """Those of the documents that are taken in already."""
    wanted = transaction.dialect.with_ids(ids)
    rows = transaction.rows(
        f"SELECT d.id FROM documents d WHERE d.collection_key = ? AND {wanted.text}",
        (collection_key, *wanted.parameters),
    )
    return {row[0] for row in rows}


def complete(transaction: Transaction, collection_key: int, *, left_out: int) -> None:
    """All is taken in that can be. When documents were left out the collection has no index any more: theirs stays as
    it is, and the collection gets one of its own."""
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
    """All adoptions that are not complete, and those that left documents out, by name."""
    rows = transaction.rows(
        "SELECT c.name, c.count, a.documents, a.left_out, c.index_state FROM adoptions a "
        "JOIN collections c ON c.key = a.collection_key ORDER BY c.name"
    )
    return [Adoption(name, count, of, left_out, state != states.ADOPTING) for name, count, of, left_out, state in rows]


def check_complete(transaction: Transaction, collection: Collection) -> None:
    """Raises AdoptingError, with the progress, while the collection is under adoption."""
    if collection.index_state != states.ADOPTING:
        return
    of = transaction.value("SELECT documents FROM adoptions WHERE collection_key = ?", (collection.key,))
    raise AdoptingError(
        f"Collection '{collection.name}' is being taken in from the engine, {collection.count} of {of} documents so "
        "far: it can be read now and written to when that is complete",
        collection=collection.name,
        documents=collection.count,
        of=of,
    )
