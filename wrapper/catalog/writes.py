"""Writes, each inside the caller's transaction: rows, fields, words, vectors, revision and outbox entry together.

Nothing here commits. A function either completes or raises, and then the caller's rollback leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import orjson

from schemas.errors import (
    AlreadyThereError,
    DocumentExistsError,
    InvalidInputError,
)
from schemas.records import NO_EXTRAS, Collection, Document, DocumentBatch, Metadata
from schemas.storage.outcomes import WriteOutcome
from schemas.where import Where
from wrapper.catalog import reads, stored_bytes
from wrapper.catalog.changes import tombstones
from wrapper.catalog.contract import Row, Transaction
from wrapper.catalog.filters import count, positions
from wrapper.catalog.index_state import outbox, states
from wrapper.catalog.index_state.adoptions import writable
from wrapper.catalog.rows import (
    collection_by_key,
    draw,
    dump_extras,
    dump_json,
)
from wrapper.catalog.sortable_values import bounded, flatten
from wrapper.catalog.words.splitting import word_row
from wrapper.embedding_checks import check_dimension

MOST_CONFLICTS = 1_000
"""The most conflicting documents that an error names."""
INDEXED_AT_ONCE = 500
"""The most documents of an outbox entry. A large write reaches the engine in parts, between the writes of others."""


def add_documents(
    transaction: Transaction,
    name: str,
    batch: DocumentBatch,
    *,
    on_conflict: str = "replace",
    replace_where: Where | None = None,
) -> WriteOutcome:
    """Store a batch. `on_conflict` says whether an existing id is replaced whole, skipped, or refused (ConflictError).

    With `replace_where`, documents that match it and are not in the batch are deleted. A document that is already
    stored in exactly this form counts as unchanged; when all are, the revision stays. Raises InvalidInputError when the
    dimension is not the collection's.
    """
    collection = writable(transaction, name)
    check_dimension(collection, batch.dimension, index=0)
    stored = reads.by_ids(transaction, collection, batch.ids, with_embeddings=True)
    if on_conflict == "error" and (conflicts := [at for at, each in enumerate(batch.ids) if each in stored]):
        error = DocumentExistsError(batch.ids[conflicts[0]])
        error.details |= {"index": conflicts[0], "indexes": conflicts[:MOST_CONFLICTS]}
        raise error
    new: list[int] = []
    changed: list[int] = []
    for index, document_id in enumerate(batch.ids):
        before = stored.get(document_id)
        if before is None:
            new.append(index)
        elif on_conflict == "replace" and not _same(before, batch, index):
            changed.append(index)
    surplus: list[str] = []
    if replace_where is not None:
        surplus = _remove_matching(transaction, collection, replace_where, sparing=frozenset(batch.ids))

    _remove(transaction, collection.key, [stored[batch.ids[index]].position for index in changed])
    first = draw(transaction, "document", len(new)) if new else 0
    tombstones.take_ids(transaction, collection.key, [batch.ids[index] for index in new])
    placed = [(first + offset, index) for offset, index in enumerate(new)]
    placed += [(stored[batch.ids[index]].position, index) for index in changed]
    _insert(transaction, collection, placed, batch)

    outcome = WriteOutcome(
        revision=collection.revision,
        outbox_id=None,
        ids=batch.ids,
        created=len(new),
        updated=len(changed),
        unchanged=len(batch) - len(new) - len(changed),
        deleted=len(surplus),
    )
    upserts: list[tuple[str, list[str] | None]] = [(batch.ids[index], None) for index in new]
    upserts += [(batch.ids[index], list(stored[batch.ids[index]].metadata)) for index in changed]
    return finish(transaction, collection, outcome, upserts, surplus, dimension=batch.dimension)


def delete_documents(
    transaction: Transaction,
    name: str,
    *,
    ids: Sequence[str] | None = None,
    where: Where | None = None,
    may_empty: bool = True,
) -> WriteOutcome:
    """Delete by ids or by filter; ids that do not exist are passed over and not counted.

    Raises InvalidInputError when the filter matches all documents of the collection and `may_empty` is false.
    """
    collection = writable(transaction, name)
    if where is not None:
        if not may_empty:
            _check_that_some_stay(transaction, collection, where)
        doomed = _remove_matching(transaction, collection, where)
    else:
        wanted = transaction.dialect.with_ids(list(ids or ()))
        found = transaction.rows(
            f"SELECT d.position, d.id FROM documents d WHERE d.collection_key = ? AND {wanted.text}",
            (collection.key, *wanted.parameters),
        )
        doomed = _delete(transaction, collection, found)
    outcome = WriteOutcome(revision=collection.revision, outbox_id=None, deleted=len(doomed))
    return finish(transaction, collection, outcome, [], doomed, dimension=collection.dimension)


def take_in(transaction: Transaction, collection_key: int, batch: DocumentBatch) -> bool:
    """Store documents that the engine has and the catalogue lacks.

    Return False when the collection's adoption is over.
    """
    collection = collection_by_key(transaction, collection_key)
    if collection is None or collection.index_state != states.ADOPTING:
        return False
    first = draw(transaction, "document", len(batch))
    _insert(transaction, collection, [(first + index, index) for index in range(len(batch))], batch)
    transaction.run(
        "UPDATE collections SET revision = revision + 1, count = count + ?, dimension = ? WHERE key = ?",
        (len(batch), batch.dimension, collection_key),
    )
    return True


def check_that_none_matches(transaction: Transaction, collection: Collection, where: Where) -> None:
    """Raise AlreadyThereError when a document of the collection matches."""
    if count(transaction, collection.key, where, collection.count):
        raise AlreadyThereError(
            f"Collection '{collection.name}' has a document that matches already", collection=collection.name
        )


def _check_that_some_stay(transaction: Transaction, collection: Collection, where: Where) -> None:
    if collection.count and count(transaction, collection.key, where, collection.count) == collection.count:
        raise InvalidInputError(
            f"where matches all {collection.count:,} documents of collection '{collection.name}': nothing was deleted. "
            "With ?all=true it would be",
            code="matches_everything",
            field="where",
            count=collection.count,
        )


def finish(
    transaction: Transaction,
    collection: Collection,
    outcome: WriteOutcome,
    upserts: list[tuple[str, list[str] | None]],
    deleted: list[str],
    *,
    dimension: int | None,
) -> WriteOutcome:
    """Raise the revision and tell the index, when documents were stored or deleted. Return the outcome with both.

    `upserts` are (id, metadata keys of the version before, None when there was none).
    """
    if not upserts and not deleted:
        # This write repeats an earlier one, which may still wait for the index: its caller waits for that one too.
        return replace(outcome, outbox_id=outbox.newest_of(transaction, collection.key))
    revision = collection.revision + 1
    transaction.run(
        "UPDATE collections SET revision = ?, count = count + ?, dimension = ? WHERE key = ?",
        (revision, outcome.created - outcome.deleted, dimension, collection.key),
    )
    entry = None
    for start in range(0, max(len(upserts), len(deleted)), INDEXED_AT_ONCE):
        part = slice(start, start + INDEXED_AT_ONCE)
        changes = {"upsert": upserts[part], "delete": deleted[part]}
        if start > 0:
            changes["further"] = True  # the revision was raised for the first part
        entry = outbox.append(transaction, collection.key, outbox.DOCUMENTS, changes)
    return replace(outcome, revision=revision, outbox_id=entry)


def _same(before: Document, batch: DocumentBatch, index: int) -> bool:
    return (
        before.text == batch.texts[index]
        and before.embedding is not None
        and before.embedding.tobytes() == batch.embeddings[index].tobytes()
        and canonical(before.metadata) == canonical(batch.metadatas[index])
        and before.extras == batch.extras.get(index, NO_EXTRAS)
    )


def canonical(metadata: Metadata) -> bytes:
    """Return the spelling that metadata shares with all that is equal to it."""
    return orjson.dumps(metadata, option=orjson.OPT_SORT_KEYS)


def insert_fields(transaction: Transaction, collection: Collection, rows: list[tuple[int, Metadata]]) -> None:
    """Store the fields behind `where` of documents, given by (position, metadata)."""
    transaction.dialect.insert_fields(
        transaction,
        [
            (position, bounded(path), value, collection.key)
            for position, metadata in rows
            for path, values in flatten(metadata).items()
            for value in values
        ],
    )


def _insert(
    transaction: Transaction, collection: Collection, placed: list[tuple[int, int]], batch: DocumentBatch
) -> None:
    """Store documents of a batch, given by (position, index), with the collection's next revision."""
    vectors = np.ascontiguousarray(batch.embeddings, dtype="<f4")
    transaction.insert(
        "documents",
        "position, collection_key, id, text, metadata, extras, revision",
        [
            (
                position,
                collection.key,
                batch.ids[index],
                batch.texts[index],
                dump_json(batch.metadatas[index]),
                dump_extras(batch.extras.get(index)),
                collection.revision + 1,
            )
            for position, index in placed
        ],
    )
    transaction.insert(
        "embeddings", "position, vector", [(position, vectors[index].tobytes()) for position, index in placed]
    )
    insert_fields(transaction, collection, [(position, batch.metadatas[index]) for position, index in placed])
    transaction.dialect.text_index.add(
        transaction,
        collection.key,
        [
            word_row(position, batch.texts[index], batch.metadatas[index], collection.metadata)
            for position, index in placed
        ],
    )
    stored_bytes.add(transaction, collection.key, [position for position, _ in placed])


def _remove(transaction: Transaction, collection_key: int, places: Sequence[int]) -> None:
    stored_bytes.subtract(transaction, collection_key, places)
    transaction.dialect.text_index.remove(transaction, collection_key, places)
    for table in ("documents", "embeddings", "document_fields", "set_aside"):
        transaction.run_many(f"DELETE FROM {table} WHERE position = ?", [(place,) for place in places])


def _delete(transaction: Transaction, collection: Collection, doomed: list[Row]) -> list[str]:
    """Delete documents, given by (position, id), with the collection's next revision, and return their ids."""
    _remove(transaction, collection.key, [row[0] for row in doomed])
    tombstones.put(transaction, collection, doomed)
    return [row[1] for row in doomed]


def _remove_matching(
    transaction: Transaction, collection: Collection, where: Where, *, sparing: frozenset[str] = frozenset()
) -> list[str]:
    """Delete the documents that match, except those to spare, and return their ids."""
    matching = positions(transaction, collection.key, where)
    doomed = transaction.rows(
        f"SELECT d.position, d.id FROM ({matching.text}) p JOIN documents d ON d.position = p.position",
        matching.parameters,
    )
    # In the order of insertion, in which the tables have them: pages that are next to each other are changed together.
    return _delete(transaction, collection, sorted(row for row in doomed if row[1] not in sparing))
