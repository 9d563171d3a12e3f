"""The words of stored documents indexed anew, when a release indexes them in another way than the one before.

A step of `wrapper/catalog/migrations.py` lists the collections in `words_to_index`. Their documents are then indexed in
batches, each in a transaction of its own: few texts are in memory, what is interrupted goes on where it was, and those
who open the catalogue at the same time share the work. Nobody reads or writes documents before it is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from wrapper.catalog.rows import DOCUMENT, to_document
from wrapper.catalog.transaction import Transaction
from wrapper.catalog.word_merging import WordMerging
from wrapper.catalog.writes import word_row

if TYPE_CHECKING:
    from wrapper.catalog.catalog import Catalog

log = structlog.get_logger(__name__)

DOCUMENTS_AT_ONCE = 1_000
COLLECTIONS_AT_ONCE = 50
SECONDS_BETWEEN_WORDS = 5.0
"""Of the log about how far it has come."""

_NEXT = "SELECT collection_key, done_to FROM words_to_index ORDER BY collection_key LIMIT 1"
_LEFT = (
    "SELECT count(*), coalesce(sum(c.count), 0) FROM words_to_index w JOIN collections c ON c.key = w.collection_key"
)


def index_all(catalog: Catalog, clock: Callable[[], float] = time.monotonic) -> None:
    """Index whatever is listed, and say in the log how much is left."""
    merging = WordMerging(catalog, clock) if catalog.kind == "sqlite" else None
    say_again_at = float("-inf")
    while True:
        with catalog.read() as transaction:
            if not is_due(transaction):
                break
            collections, documents = transaction.rows(_LEFT)[0]
        if clock() >= say_again_at:
            log.info("indexing the words of all documents anew", collections_left=collections, documents_left=documents)
            say_again_at = clock() + SECONDS_BETWEEN_WORDS
        catalog.commit(index_next)
        while merging is not None and merging.step():
            pass
    if say_again_at > float("-inf"):
        log.info("the words of all documents are indexed")


def is_due(transaction: Transaction) -> bool:
    return transaction.row(_NEXT) is not None


def index_next(transaction: Transaction) -> None:
    """Index one batch, if anything is left to do."""
    left = DOCUMENTS_AT_ONCE
    for _ in range(COLLECTIONS_AT_ONCE):
        listed = transaction.row(_NEXT)
        if listed is None or left == 0:
            return
        left -= _index_some(transaction, *listed, limit=left)


def _index_some(transaction: Transaction, collection_key: int, done_to: int, *, limit: int) -> int:
    index = transaction.dialect.text_index
    if done_to == 0:
        index.drop(transaction, collection_key)
        if transaction.dialect.bytes_type == "BLOB":
            # Releases before had a table for each collection (`wrapper/catalog/old_words.py`).
            transaction.run(f"DROP TABLE IF EXISTS words_{int(collection_key)}")
    rows = transaction.rows(
        f"SELECT {DOCUMENT} FROM documents d WHERE d.collection_key = ? AND d.position > ? ORDER BY d.position LIMIT ?",
        (collection_key, done_to, limit),
    )
    words = [word_row(document) for document in map(to_document, rows)]
    if words:
        index.add(transaction, collection_key, words)
    if len(words) < limit:
        transaction.run("DELETE FROM words_to_index WHERE collection_key = ?", (collection_key,))
    else:
        transaction.run(
            "UPDATE words_to_index SET done_to = ? WHERE collection_key = ?", (words[-1].position, collection_key)
        )
    return len(words)
