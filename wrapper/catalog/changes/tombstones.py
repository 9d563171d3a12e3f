"""Tombstones: what deleted documents leave, so that who follows a collection learns that they are gone.

A tombstone has the position of its document, which is never given again, and its id. It loses the id when that is given
to another document, which is the newest state of the id then. Tombstones are swept when they are old, and all of a
collection when something is erased from it; from which revision on a collection still has them all is in
`collections.deletions_since`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from schemas.records import Collection
from wrapper.catalog.contract import Committing, Row, Transaction

SWEPT_AT_ONCE = 2_000
SECONDS_OF_DAY = 86_400.0
PAUSE_SECONDS = 600.0


def put(transaction: Transaction, collection: Collection, deleted: Sequence[Row]) -> None:
    """Leave tombstones for documents, given by (position, id), that the collection's next revision deletes."""
    now = time.time()
    transaction.insert(
        "tombstones",
        "position, collection_key, id, revision, deleted_at_seconds",
        [(position, collection.key, each, collection.revision + 1, now) for position, each in deleted],
    )


def put_for_all(transaction: Transaction, collection: Collection) -> None:
    """Leave tombstones for all documents of a collection, before its next revision deletes them."""
    transaction.run(
        "INSERT INTO tombstones (position, collection_key, id, revision, deleted_at_seconds) "
        "SELECT d.position, d.collection_key, d.id, ?, ? FROM documents d WHERE d.collection_key = ?",
        (collection.revision + 1, time.time(), collection.key),
    )


def take_ids(transaction: Transaction, collection_key: int, ids: Sequence[str]) -> None:
    """Take these ids from the tombstones that have them."""
    wanted = transaction.dialect.with_ids(ids)
    transaction.run(
        f"UPDATE tombstones AS d SET id = NULL WHERE d.collection_key = ? AND {wanted.text}",
        (collection_key, *wanted.parameters),
    )


def erase(transaction: Transaction, collection_key: int) -> None:
    """Delete the tombstones of a collection that something is erased from: nothing tells whose documents they were.

    Followers cannot be told of them, so all have to begin anew.
    """
    if transaction.value("SELECT COUNT(*) FROM tombstones WHERE collection_key = ?", (collection_key,)):
        forget(transaction, collection_key)
        transaction.run("UPDATE collections SET deletions_since = revision WHERE key = ?", (collection_key,))


def forget(transaction: Transaction, collection_key: int) -> None:
    """Delete the tombstones of a collection."""
    transaction.run("DELETE FROM tombstones WHERE collection_key = ?", (collection_key,))


class TombstoneSweeper:
    """Deletes the tombstones that are older than `days`, some at a time. `clock` tells the time since the epoch in
    seconds."""

    def __init__(self, catalog: Committing, days: float, clock: Callable[[], float]) -> None:
        self._catalog = catalog
        self._kept_seconds = days * SECONDS_OF_DAY
        self._clock = clock
        self._next_at = 0.0

    def step(self) -> bool:
        """Delete some. Return whether there were any."""
        now = self._clock()
        if now < self._next_at:
            return False
        with self._catalog.read() as transaction:
            old = _older(transaction, now - self._kept_seconds)
        if not old:
            self._next_at = now + PAUSE_SECONDS
            return False
        self._catalog.commit_quickly(lambda transaction: _sweep(transaction, old))
        return True


def _older(transaction: Transaction, before_seconds: float) -> list[Row]:
    """Return (position, collection key, revision) of some of the tombstones from before that time, the oldest first."""
    return transaction.rows(
        "SELECT position, collection_key, revision FROM tombstones WHERE deleted_at_seconds < ? "
        "ORDER BY deleted_at_seconds LIMIT ?",
        (before_seconds, SWEPT_AT_ONCE),
    )


def _sweep(transaction: Transaction, old: Sequence[Row]) -> None:
    newest: dict[int, int] = {}
    for _, key, revision in old:
        newest[key] = max(revision, newest.get(key, 0))
    transaction.run_many(
        "UPDATE collections SET deletions_since = ? WHERE key = ? AND deletions_since < ?",
        [(revision, key, revision) for key, revision in newest.items()],
    )
    transaction.run_many("DELETE FROM tombstones WHERE position = ?", [(position,) for position, _, _ in old])
