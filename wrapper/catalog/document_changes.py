"""Changes of stored documents, each inside the caller's transaction: what a change does not name stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from schemas.errors import DocumentNotFoundError, InvalidInputError
from schemas.metadata import check_metadata, merge_patch
from schemas.records import (
    Collection,
    Document,
    DocumentBatch,
    DocumentChanges,
    DocumentPatch,
    Extras,
    Metadata,
    Vector,
)
from schemas.storage.outcomes import WriteOutcome
from schemas.where import EVERYTHING, HasId, Where, all_of
from wrapper.catalog import reads, stored_bytes
from wrapper.catalog.changes.held_matches import PlannedMatches
from wrapper.catalog.contract import GiveWay, PreparedWords, TextIndex, Transaction, WordRow, go_on
from wrapper.catalog.index_state.adoptions import writable
from wrapper.catalog.preparing import DocumentWrite, Field, fields_of
from wrapper.catalog.rows import dump_json
from wrapper.catalog.words.languages import declared_language
from wrapper.catalog.words.splitting import heading_of, tags_of, word_row
from wrapper.catalog.writes import (
    PlannedWrite,
    canonical,
    check_that_it_names_some,
    finish,
    insert_fields,
    plan_addition,
)
from wrapper.embedding_checks import check_dimension, check_directions

CHANGED_AT_ONCE = 500
"""The number of documents whose change is in memory at a time."""


def patching(name: str, document_id: str, patch: DocumentPatch) -> DocumentWrite:
    """Return the write that changes parts of one document; the rest stays. It raises DocumentNotFoundError when there
    is no such document, and InvalidInputError when the metadata would exceed its bounds."""
    return DocumentWrite(partial(_plan_patch, name=name, document_id=document_id, patch=patch))


def _plan_patch(
    transaction: Transaction, matches: PlannedMatches, name: str, document_id: str, patch: DocumentPatch
) -> PlannedWrite:
    collection = writable(transaction, name)
    before = reads.by_ids(transaction, collection, [document_id], with_embeddings=True).get(document_id)
    if before is None:
        raise DocumentNotFoundError(name, document_id)
    vector = before.embedding if patch.embedding is None else patch.embedding
    assert vector is not None
    check_dimension(collection, len(vector))
    if patch.embedding is not None:
        check_directions(collection, patch.embedding[np.newaxis], index=None)
    metadata = before.metadata
    if patch.metadata is not None:
        metadata = check_metadata(merge_patch(metadata, patch.metadata))
    batch = DocumentBatch(
        ids=[document_id],
        texts=[before.text if patch.text is None else patch.text],
        metadatas=[metadata],
        embeddings=np.asarray([vector], dtype="<f4"),
        extras={
            0: Extras(
                before.extras.uri if patch.uri is None else patch.uri or None,
                before.extras.textless and patch.text is None,
            )
        },
    )
    return plan_addition(transaction, matches, name, batch)


class _Merged(NamedTuple):
    """A document that a patch changes: the keys of its metadata before, and these afterwards as they are stored."""

    position: int
    id: str
    keys: list[str]
    metadata: str
    fields: list[Field]


_Block = tuple[list[_Merged], PreparedWords]
"""What a patch changes of some documents, and the words of those whose words it changes."""


@dataclass(slots=True)
class _MetadataPatch:
    """A patch of the metadata of the documents at these `places`, the `first` of which have been read."""

    name: str
    collection: Collection
    index: TextIndex
    patch: Metadata
    places: list[int]
    first: list[Document]
    prepared: _Block | None = None

    def prepare(self, before: _MetadataPatch | None, give_way: GiveWay) -> None:
        if before is not None and before.first == self.first and before.collection.metadata == self.collection.metadata:
            self.prepared = before.prepared
        else:
            self.prepared = self._merge(self.first, give_way)

    def store(self, transaction: Transaction) -> WriteOutcome:
        assert self.prepared is not None
        collection, places = self.collection, self.places
        changed = _store_block(transaction, collection, self.prepared)
        for start in range(CHANGED_AT_ONCE, len(places), CHANGED_AT_ONCE):
            found = reads.by_positions(transaction, places[start : start + CHANGED_AT_ONCE])
            changed += _store_block(transaction, collection, self._merge(found.values(), go_on))
        outcome = WriteOutcome(
            revision=collection.revision,
            outbox_id=None,
            updated=len(changed),
            unchanged=len(places) - len(changed),
        )
        return finish(transaction, collection, outcome, changed, [], dimension=collection.dimension)

    def _merge(self, documents: Iterable[Document], give_way: GiveWay) -> _Block:
        merged: list[_Merged] = []
        words: list[WordRow] = []
        for document in documents:
            give_way()
            before = document.metadata
            after = merge_patch(before, self.patch)
            if canonical(after) == canonical(before):
                continue
            try:
                check_metadata(after)
            except InvalidInputError as error:
                error.message = f"{error.message}, of the document '{document.id}' after the merge"
                error.details["id"] = document.id
                raise
            merged.append(_Merged(document.position, document.id, list(before), dump_json(after), fields_of(after)))
            if _said(after) != _said(before):
                words.append(word_row(document.position, document.text, after, self.collection.metadata))
        return merged, self.index.prepare(words, give_way)


def patching_metadata(
    name: str, patch: Metadata, *, ids: Sequence[str] | None = None, where: Where, may_match_all: bool = True
) -> DocumentWrite:
    """Return the write that merges a patch into the metadata of all documents that match and, with `ids`, are of these;
    ids that do not exist are passed over.

    Documents that it leaves as they were count as unchanged. It raises InvalidInputError, which names the document,
    when the metadata of one would exceed its bounds, and without `ids` as `check_that_it_names_some` does, unless the
    filter `may_match_all` or is empty. The first `CHANGED_AT_ONCE` documents are prepared before.
    """

    chosen = where if ids is None else all_of(HasId(tuple(ids)), where)

    def plan(transaction: Transaction, matches: PlannedMatches) -> _MetadataPatch:
        collection = writable(transaction, name)
        places = matches.of(transaction, collection, chosen).tolist()
        if ids is None and not may_match_all and where != EVERYTHING:
            check_that_it_names_some(collection, where, len(places), "changed")
        first = list(reads.by_positions(transaction, places[:CHANGED_AT_ONCE]).values())
        return _MetadataPatch(name, collection, transaction.dialect.text_index, patch, places, first)

    return DocumentWrite(plan)


def _said(metadata: Metadata) -> tuple[str, str, str | None]:
    """Return what of the words of a document depends on its metadata."""
    return heading_of(metadata), tags_of(metadata), declared_language(metadata)


def _store_block(transaction: Transaction, collection: Collection, block: _Block) -> list[tuple[str, list[str] | None]]:
    """Return (id, metadata keys of the version before) of the documents that are changed."""
    merged, words = block
    places = [each.position for each in merged]
    if not places:
        return []
    stored_bytes.subtract(transaction, collection.key, places)
    transaction.run_many(
        "UPDATE documents SET metadata = ?, revision = ? WHERE position = ?",
        [(each.metadata, collection.revision + 1, each.position) for each in merged],
    )
    stored_bytes.add(transaction, collection.key, places)
    doomed = transaction.dialect.one_of("position", places)
    transaction.run(f"DELETE FROM document_fields WHERE {doomed.text}", doomed.parameters)
    insert_fields(transaction, collection, places, [each.fields for each in merged])
    transaction.dialect.text_index.remove(transaction, collection.key, [place for place, _ in words.signatures])
    transaction.dialect.text_index.add(transaction, collection.key, words)
    return [(each.id, each.keys) for each in merged]


def merging(name: str, changes: DocumentChanges, *, adds: bool, merges: bool) -> DocumentWrite:
    """Return the write that changes documents by id: those that exist when it `merges`, and new ones when it `adds`.

    Of a document that exists, what a change does not name stays; its metadata is merged key by key, and null removes a
    key. A new document has what its change names, and needs an embedding. Of several changes of one id each stands on
    the one before, or without `merges` the first counts. It raises InvalidInputError for an embedding that is missing
    or of another dimension.
    """
    return DocumentWrite(partial(_plan_merge, name=name, changes=changes, adds=adds, merges=merges))


def _plan_merge(
    transaction: Transaction,
    matches: PlannedMatches,
    name: str,
    changes: DocumentChanges,
    *,
    adds: bool,
    merges: bool,
) -> PlannedWrite:
    collection = writable(transaction, name)
    for row, embedding in enumerate(changes.embeddings or ()):
        if embedding is not None:
            check_dimension(collection, len(embedding), index=row)
    stored = reads.by_ids(transaction, collection, changes.ids, with_embeddings=True)
    after: dict[str, _State] = {}
    for row, document_id in enumerate(changes.ids):
        before = after.get(document_id)
        if before is None and document_id in stored:
            if not merges:
                continue
            before = _State.of(stored[document_id])
        if before is None:
            if adds:
                after[document_id] = _State.new(changes, row)
        elif merges:
            after[document_id] = before.changed(changes, row)
    states = list(after.values())
    dimension = len(states[0].embedding) if states else 0
    for state in states:
        if len(state.embedding) != dimension:
            raise InvalidInputError(
                f"Embedding dimension mismatch: one has {dimension}, another {len(state.embedding)}",
                code="dimension_mismatch",
                field="embeddings",
            )
    batch = DocumentBatch(
        ids=list(after),
        texts=[state.text or "" for state in states],
        metadatas=[state.metadata for state in states],
        embeddings=np.array([state.embedding for state in states], dtype="<f4").reshape(len(states), dimension),
        extras={row: Extras(state.uri, state.text is None) for row, state in enumerate(states)},
    )
    return plan_addition(transaction, matches, name, batch)


@dataclass(frozen=True, slots=True)
class _State:
    """A document as changes leave it. `text` is None when it has none."""

    text: str | None
    metadata: Metadata
    embedding: Vector
    uri: str | None

    @classmethod
    def of(cls, document: Document) -> _State:
        assert document.embedding is not None
        text = None if document.extras.textless else document.text
        return cls(text, document.metadata, document.embedding, document.extras.uri)

    @classmethod
    def new(cls, changes: DocumentChanges, row: int) -> _State:
        embedding = changes.embedding(row)
        if embedding is None:
            raise InvalidInputError(
                "A new document needs an embedding", code="embedding_required", field="embeddings", index=row
            )
        given = changes.metadata(row) or {}
        metadata = {key: value for key, value in given.items() if value is not None}
        return cls(changes.text(row), metadata, embedding, changes.uri(row))

    def changed(self, changes: DocumentChanges, row: int) -> _State:
        text, embedding, uri = changes.text(row), changes.embedding(row), changes.uri(row)
        merged = {**self.metadata, **(changes.metadata(row) or {})}
        return _State(
            self.text if text is None else text,
            {key: value for key, value in merged.items() if value is not None},
            self.embedding if embedding is None else embedding,
            self.uri if uri is None else uri,
        )
