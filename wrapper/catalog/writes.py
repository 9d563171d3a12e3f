"""Writes, each inside the caller's transaction: rows, fields, words, vectors, revision and outbox entry together.

Nothing here commits. A function either completes or raises, and then the caller's rollback leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import orjson

from schemas.errors import AlreadyThereError, DocumentExistsError, MatchesEverythingError
from schemas.records import NO_EXTRAS, Collection, Document, DocumentBatch, Metadata
from schemas.storage.outcomes import WriteOutcome
from schemas.where import Where, matches_empty_document
from wrapper.catalog import reads, stored_bytes
from wrapper.catalog.changes import tombstones
from wrapper.catalog.changes.held_matches import PlannedMatches, Positions
from wrapper.catalog.contract import GiveWay, Row, TextIndex, Transaction
from wrapper.catalog.index_state import outbox, states
from wrapper.catalog.index_state.adoptions import writable
from wrapper.catalog.preparing import DocumentWrite, Field, PreparedDocuments, prepare_documents
from wrapper.catalog.rows import collection_by_key, draw
from wrapper.embedding_checks import check_dimension

MOST_CONFLICTS = 1_000
"""The most conflicting documents that an error names."""
INDEXED_AT_ONCE = 500
"""The most documents of an outbox entry. A large write reaches the engine in parts, between the writes of others."""


@dataclass(slots=True)
class PlannedWrite:
    """What a write does: the rows of a batch that are `new`, those that change a document, and what is deleted.

    `stored` are the documents that have ids of the batch, by id, and `surplus` those to delete, as (position, id).
    """

    name: str
    collection: Collection
    index: TextIndex
    batch: DocumentBatch
    stored: Mapping[str, Document]
    new: list[int]
    changed: list[int]
    surplus: list[Row]
    prepared: PreparedDocuments | None = None

    def prepare(self, before: PlannedWrite | None, give_way: GiveWay) -> None:
        numbers = sorted([*self.new, *self.changed])
        self.prepared = None if before is None else before.prepared
        if self.prepared is None or not self.prepared.are(self.batch, numbers, self.collection):
            self.prepared = prepare_documents(self.index, self.collection, self.batch, numbers, give_way)

    def store(self, transaction: Transaction) -> WriteOutcome:
        collection, ids, prepared = self.collection, self.batch.ids, self.prepared
        assert prepared is not None
        deleted = _delete(transaction, collection, self.surplus)
        places = {row: self.stored[ids[row]].position for row in self.changed}
        _remove(transaction, collection.key, list(places.values()))
        if self.new:
            first = draw(transaction, "document", len(self.new))
            tombstones.take_ids(transaction, collection.key, [ids[row] for row in self.new])
            places |= {row: first + offset for offset, row in enumerate(self.new)}
        _insert(transaction, collection, [places[row] for row in prepared.numbers], prepared)
        outcome = WriteOutcome(
            revision=collection.revision,
            outbox_id=None,
            ids=ids,
            created=len(self.new),
            updated=len(self.changed),
            unchanged=len(ids) - len(places),
            deleted=len(deleted),
        )
        upserts: list[tuple[str, list[str] | None]] = [(ids[row], None) for row in self.new]
        upserts += [(ids[row], list(self.stored[ids[row]].metadata)) for row in self.changed]
        return finish(transaction, collection, outcome, upserts, deleted, dimension=self.batch.dimension)


def add_documents(transaction: Transaction, name: str, batch: DocumentBatch, **conditions: Any) -> WriteOutcome:
    """Store a batch, as `plan_addition` says, all in this transaction."""
    return DocumentWrite(partial(plan_addition, name=name, batch=batch, **conditions)).store(transaction)


def plan_addition(
    transaction: Transaction,
    matches: PlannedMatches,
    name: str,
    batch: DocumentBatch,
    *,
    on_conflict: str = "replace",
    replace_where: Where | None = None,
    may_match_all: bool = True,
) -> PlannedWrite:
    """Plan to store a batch. `on_conflict` says whether an existing id is replaced whole, skipped, or refused
    (ConflictError).

    With `replace_where`, documents that match it and are not in the batch are deleted. A document that is already
    stored in exactly this form counts as unchanged; when all are, the revision stays. Raises InvalidInputError when the
    dimension is not the collection's, and as `check_that_it_names_some` does unless the filter `may_match_all`.
    """
    collection = writable(transaction, name)
    if len(batch):
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
    surplus: list[Row] = []
    if replace_where is not None:
        found = matches.of(transaction, collection, replace_where)
        surplus = _rows_at(transaction, found, sparing=frozenset(batch.ids))
        if surplus and not may_match_all:
            check_that_it_names_some(collection, replace_where, len(found), "stored", "replace_where")
    return PlannedWrite(name, collection, transaction.dialect.text_index, batch, stored, new, changed, surplus)


def delete_documents(transaction: Transaction, name: str, **conditions: Any) -> WriteOutcome:
    """Delete documents, as `plan_deletion` says, all in this transaction."""
    return DocumentWrite(partial(plan_deletion, name=name, **conditions)).store(transaction)


def plan_deletion(
    transaction: Transaction,
    matches: PlannedMatches,
    name: str,
    *,
    ids: Sequence[str] | None = None,
    where: Where | None = None,
    may_match_all: bool = True,
) -> PlannedWrite:
    """Plan to delete by ids or by filter; ids that do not exist are passed over and not counted.

    Raises MatchesEverythingError when the filter matches all documents of the collection, unless it `may_match_all`.
    """
    collection = writable(transaction, name)
    if where is not None:
        found = matches.of(transaction, collection, where)
        if not may_match_all:
            check_that_not_all_match(collection, len(found), "deleted")
        doomed = _rows_at(transaction, found)
    else:
        wanted = transaction.dialect.with_ids(list(ids or ()))
        doomed = transaction.rows(
            f"SELECT d.position, d.id FROM documents d WHERE d.collection_key = ? AND {wanted.text}",
            (collection.key, *wanted.parameters),
        )
    none = DocumentBatch([], [], [], np.empty((0, collection.dimension or 0), dtype="<f4"))
    return PlannedWrite(name, collection, transaction.dialect.text_index, none, {}, [], [], doomed)


def take_in(transaction: Transaction, collection_key: int, prepared: PreparedDocuments) -> bool:
    """Store documents that the engine has and the catalogue lacks.

    Return False when the collection's adoption is over.
    """
    collection = collection_by_key(transaction, collection_key)
    if collection is None or collection.index_state != states.ADOPTING:
        return False
    documents = len(prepared.numbers)
    first = draw(transaction, "document", documents)
    _insert(transaction, collection, list(range(first, first + documents)), prepared)
    transaction.run(
        "UPDATE collections SET revision = revision + 1, count = count + ?, dimension = ? WHERE key = ?",
        (documents, prepared.batch.dimension, collection_key),
    )
    return True


def check_that_none_matches(
    transaction: Transaction, matches: PlannedMatches, collection: Collection, where: Where
) -> None:
    """Raise AlreadyThereError when a document of the collection matches."""
    if len(matches.of(transaction, collection, where)):
        raise AlreadyThereError(
            f"Collection '{collection.name}' has a document that matches already", collection=collection.name
        )


def check_that_not_all_match(collection: Collection, found: int, done: str, field: str = "where") -> None:
    """Raise MatchesEverythingError, which says that nothing was `done`, when that many are all documents."""
    if collection.count and found == collection.count:
        raise MatchesEverythingError(collection.name, collection.count, done, field)


def check_that_it_names_some(collection: Collection, where: Where, found: int, done: str, field: str = "where") -> None:
    """Raise MatchesEverythingError when all documents were `found` although the filter names nothing that they have.
    One on what they do have may replace or change all: misspelt, it would match none."""
    if matches_empty_document(where):
        check_that_not_all_match(collection, found, done, field)


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


def insert_fields(
    transaction: Transaction, collection: Collection, places: Sequence[int], fields: Sequence[Sequence[Field]]
) -> None:
    """Store the fields behind `where` of the documents at these positions."""
    rows = [
        (place, path, value, collection.key) for place, some in zip(places, fields, strict=True) for path, value in some
    ]
    transaction.dialect.insert_fields(transaction, rows)


def _insert(
    transaction: Transaction, collection: Collection, places: Sequence[int], prepared: PreparedDocuments
) -> None:
    """Store documents at these positions, with the collection's next revision."""
    if not places:
        return
    transaction.insert(
        "documents",
        "position, collection_key, id, text, metadata, extras, revision",
        [
            (place, collection.key, *row, collection.revision + 1)
            for place, row in zip(places, prepared.rows, strict=True)
        ],
    )
    transaction.insert("embeddings", "position, vector", list(zip(places, prepared.vectors, strict=True)))
    insert_fields(transaction, collection, places, prepared.fields)
    transaction.dialect.text_index.add(transaction, collection.key, prepared.words, places)
    stored_bytes.add(transaction, collection.key, places)


def _remove(transaction: Transaction, collection_key: int, places: Sequence[int]) -> None:
    if not places:
        return
    stored_bytes.subtract(transaction, collection_key, places)
    transaction.dialect.text_index.remove(transaction, collection_key, places)
    doomed = transaction.dialect.one_of("position", places)
    for table in ("documents", "embeddings", "document_fields", "set_aside"):
        transaction.run(f"DELETE FROM {table} WHERE {doomed.text}", doomed.parameters)


def _delete(transaction: Transaction, collection: Collection, doomed: list[Row]) -> list[str]:
    """Delete documents, given by (position, id), with the collection's next revision, and return their ids."""
    _remove(transaction, collection.key, [row[0] for row in doomed])
    tombstones.put(transaction, collection, doomed)
    return [row[1] for row in doomed]


def _rows_at(transaction: Transaction, positions: Positions, *, sparing: frozenset[str] = frozenset()) -> list[Row]:
    """Return (position, id) of the documents at these positions, except those to spare."""
    wanted = transaction.dialect.one_of("d.position", positions.tolist())
    found = transaction.rows(f"SELECT d.position, d.id FROM documents d WHERE {wanted.text}", wanted.parameters)
    # In the order of insertion, in which the tables have them: pages that are next to each other are changed together.
    return sorted(row for row in found if row[1] not in sparing)
