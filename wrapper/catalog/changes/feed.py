"""The changes of a collection since a revision, in the order of revisions: each document once, in its newest state.

Who has nothing of a collection yet is told of all its documents, and of no deletions. That may take several parts, and
what an earlier part told of may be deleted meanwhile: so a follower says at which revision its first part was read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import closing
from heapq import merge
from typing import NamedTuple

from schemas.errors import TooOldError
from schemas.records import Change, Collection, Since
from wrapper.catalog import identity
from wrapper.catalog.contract import Row, Transaction
from wrapper.catalog.rows import (
    DOCUMENT,
    DOCUMENT_AND_VECTOR,
    DOCUMENTS_WITH_VECTORS,
    to_document,
    to_document_and_vector,
)

READ_AT_ONCE = 200
"""The number of documents in memory at a time."""
HISTORY_BYTES = 12


def history_of(transaction: Transaction, collection: Collection) -> str:
    """Return the name of a collection's history of revisions, which no other collection has, nor this one after it was
    restored from a backup."""
    named = f"{collection.id} {identity.history(transaction)}"
    return hashlib.blake2b(named.encode(), digest_size=HISTORY_BYTES).hexdigest()


def check_since(transaction: Transaction, collection: Collection, since: Since) -> None:
    """Raise TooOldError when not all deletions since then are known, or it is of another history."""
    base = since.base(collection)
    oldest = transaction.value("SELECT deletions_since FROM collections WHERE key = ?", (collection.key,))
    if since.history not in (None, history_of(transaction, collection)) or base > collection.revision:
        reason = f"Collection '{collection.name}' is another one than that which was followed, or was restored"
    elif base < oldest:
        reason = f"What was deleted from collection '{collection.name}' before revision {oldest} is not known any more"
    else:
        return
    raise TooOldError(f"{reason}. Begin anew, with since=0", field="since", oldest=oldest)


def changes_since(
    transaction: Transaction, collection: Collection, since: Since, *, with_embeddings: bool = False
) -> Generator[Change]:
    """Yield what changed since then, as `check_since` has found it to be known. Who does not take all of it closes it
    before the transaction ends."""
    columns, source, make = (
        (DOCUMENT_AND_VECTOR, DOCUMENTS_WITH_VECTORS, to_document_and_vector)
        if with_embeddings
        else (DOCUMENT, "documents d", to_document)
    )
    # Documents from before their revisions were noted have 0.
    rows = _each(
        transaction,
        f"SELECT {columns}, d.revision FROM {source} "
        "WHERE d.collection_key = ? AND d.revision > ? ORDER BY d.revision, d.position",
        (collection.key, since.revision or -1),
    )
    documents = (Change(row[-1], row[1], make(row)) for row in rows)
    deleted = _each(
        transaction,
        "SELECT revision, id FROM tombstones WHERE collection_key = ? AND revision > ? AND id IS NOT NULL "
        "ORDER BY revision, position",
        (collection.key, since.base(collection)),
    )
    deletions = (Change(revision, each, None) for revision, each in deleted)
    with closing(rows), closing(deleted):
        yield from merge(deletions, documents, key=lambda change: change.revision)


class Positions(NamedTuple):
    """The positions of documents that were written, and of others that were deleted."""

    written: list[int]
    deleted: list[int]


def positions_since(transaction: Transaction, collection: Collection, revision: int, *, limit: int) -> Positions | None:
    """Return what changed after that revision, at most `limit` of each; None when not all deletions are known."""
    if transaction.value("SELECT deletions_since FROM collections WHERE key = ?", (collection.key,)) > revision:
        return None
    written, deleted = (
        transaction.rows(
            f"SELECT position FROM {table} WHERE collection_key = ? AND revision > ? LIMIT ?",
            (collection.key, revision, limit),
        )
        for table in ("documents", "tombstones")
    )
    return Positions([row[0] for row in written], [row[0] for row in deleted])


def _each(transaction: Transaction, sql: str, parameters: Row) -> Generator[Row]:
    with closing(transaction.blocks(sql, parameters, READ_AT_ONCE)) as blocks:
        for rows in blocks:
            yield from rows
