"""Changes of stored documents, each inside the caller's transaction: what a change does not name stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from schemas.where import Where
from wrapper.catalog import reads, stored_bytes
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import outbox
from wrapper.catalog.index_state.adoptions import writable
from wrapper.catalog.rows import dump_json
from wrapper.catalog.words.splitting import word_row
from wrapper.catalog.writes import add_documents, canonical, finish, insert_fields
from wrapper.embedding_checks import check_dimension, check_directions

CHANGED_AT_ONCE = 500
"""The number of documents whose change is in memory at a time."""


def patch_document(
    transaction: Transaction, name: str, document_id: str, patch: DocumentPatch
) -> tuple[Document, WriteOutcome]:
    """Change parts of one document; the rest stays. Raises DocumentNotFoundError when there is no such document, and
    InvalidInputError when the metadata would exceed its bounds."""
    collection = writable(transaction, name)
    stored = reads.by_ids(transaction, collection, [document_id], with_embeddings=True)
    if document_id not in stored:
        raise DocumentNotFoundError(name, document_id)
    before = stored[document_id]
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
    outcome = add_documents(transaction, name, batch)
    return reads.by_ids(transaction, collection, [document_id], with_embeddings=True)[document_id], outcome


def patch_metadata(
    transaction: Transaction, name: str, patch: Metadata, *, ids: Sequence[str] | None = None, where: Where
) -> WriteOutcome:
    """Merge a patch into the metadata of all documents that match and, with `ids`, are of these; ids that do not exist
    are passed over.

    Documents that it leaves as they were count as unchanged. Raises InvalidInputError, which names the document, when
    the metadata of one would exceed its bounds.
    """
    collection = writable(transaction, name)
    if ids is None:
        places = sorted(reads.all_positions(transaction, collection, where).tolist())
    else:
        places = sorted(each.position for each in reads.by_ids(transaction, collection, ids, where=where).values())
    changed: list[tuple[str, list[str] | None]] = []
    for start in range(0, len(places), CHANGED_AT_ONCE):
        found = reads.by_positions(transaction, places[start : start + CHANGED_AT_ONCE])
        changed += _merge(transaction, collection, list(found.values()), patch)
    outcome = WriteOutcome(
        revision=collection.revision,
        outbox_id=None,
        updated=len(changed),
        unchanged=len(places) - len(changed),
    )
    return finish(transaction, collection, outcome, changed, [], dimension=collection.dimension)


def _merge(
    transaction: Transaction, collection: Collection, documents: Sequence[Document], patch: Metadata
) -> list[tuple[str, list[str] | None]]:
    """Return (id, metadata keys of the version before) of the documents that the patch changes."""
    changed: list[tuple[Document, Metadata, Metadata]] = []
    for document in documents:
        before = document.metadata
        after = merge_patch(before, patch)
        if canonical(after) == canonical(before):
            continue
        try:
            check_metadata(after)
        except InvalidInputError as error:
            error.message = f"{error.message}, of the document '{document.id}' after the merge"
            error.details["id"] = document.id
            raise
        changed.append((document, before, after))
    places = [document.position for document, _, _ in changed]
    stored_bytes.subtract(transaction, collection.key, places)
    transaction.run_many(
        "UPDATE documents SET metadata = ?, revision = ? WHERE position = ?",
        [(dump_json(after), collection.revision + 1, document.position) for document, _, after in changed],
    )
    stored_bytes.add(transaction, collection.key, places)
    transaction.run_many("DELETE FROM document_fields WHERE position = ?", [(place,) for place in places])
    insert_fields(transaction, collection, [(document.position, after) for document, _, after in changed])
    words = [
        row
        for document, before, after in changed
        if (row := word_row(document.position, document.text, after, collection.metadata))
        != word_row(document.position, document.text, before, collection.metadata)
    ]
    if words:
        transaction.dialect.text_index.remove(transaction, collection.key, [row.position for row in words])
        transaction.dialect.text_index.add(transaction, collection.key, words)
    return [(document.id, list(before)) for document, before, _ in changed]


def merge_documents(
    transaction: Transaction, name: str, changes: DocumentChanges, *, adds: bool, merges: bool
) -> WriteOutcome:
    """Apply changes to documents by id: to those that exist when it `merges`, and to new ones when it `adds`.

    Of a document that exists, what a change does not name stays; its metadata is merged key by key, and null removes a
    key. A new document has what its change names, and needs an embedding. Of several changes of one id each stands on
    the one before, or without `merges` the first counts. Raises InvalidInputError for an embedding that is missing or
    of another dimension.
    """
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
    if not after:
        return WriteOutcome(revision=collection.revision, outbox_id=outbox.newest_of(transaction, collection.key))
    states = list(after.values())
    dimension = len(states[0].embedding)
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
        embeddings=np.stack([state.embedding for state in states]),
        extras={row: Extras(state.uri, state.text is None) for row, state in enumerate(states)},
    )
    return add_documents(transaction, name, batch)


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
