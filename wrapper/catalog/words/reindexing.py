"""Reindexing of the words of stored documents, when a release indexes them differently from the one before.

A step of `wrapper/catalog/migrations.py` lists the collections in `words_to_index`. Their documents are then indexed in
batches, each in a transaction of its own: few texts are in memory, interrupted work continues where it stopped, and all
processes that open the catalogue at the same time share the work. Nobody reads or writes documents before it is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from wrapper.catalog.contract import Committing, Transaction
from wrapper.catalog.rows import DOCUMENT, collection_by_key, to_document
from wrapper.catalog.words.merging import WordMerging
from wrapper.catalog.words.splitting import word_row

log = structlog.get_logger(__name__)

DOCUMENTS_AT_ONCE = 1_000
COLLECTIONS_AT_ONCE = 50
SECONDS_BETWEEN_WORDS = 5.0
"""The time between two log lines that report the progress."""

_NEXT = "SELECT collection_key, done_to FROM words_to_index ORDER BY collection_key LIMIT 1"
_LEFT = (
    "SELECT count(*), coalesce(sum(c.count), 0) FROM words_to_index w JOIN collections c ON c.key = w.collection_key"
)


def index_all(catalog: Committing, clock: Callable[[], float] = time.monotonic) -> None:
    """Index the words of all listed collections, and log how much is left."""
    merging = WordMerging(catalog, clock)
    say_again_at = float("-inf")
    while True:
        with catalog.read() as transaction:
            if not is_due(transaction):
                break
            collections, documents = transaction.rows(_LEFT)[0]
        if clock() >= say_again_at:
            log.info("reindexing the words of all documents", collections_left=collections, documents_left=documents)
            say_again_at = clock() + SECONDS_BETWEEN_WORDS
        catalog.commit(index_next)
        while merging.step():
            pass
    if say_again_at > float("-inf"):
        log.info("the words of all documents are indexed")


def is_due(transaction: Transaction) -> bool:
    return transaction.row(_NEXT) is not None


def index_next(transaction: Transaction) -> None:
    """Index one batch, if anything is left."""
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
            # Earlier releases had a table for each collection (`wrapper/catalog/words/old_tables.py`).
            transaction.run(f"DROP TABLE IF EXISTS words_{int(collection_key)}")
    rows = transaction.rows(
        f"SELECT {DOCUMENT} FROM documents d WHERE d.collection_key = ? AND d.position > ? ORDER BY d.position LIMIT ?",
        (collection_key, done_to, limit),
    )
    collection = collection_by_key(transaction, collection_key)
    described = collection.metadata if collection else {}
    words = [word_row(each.position, each.text, each.metadata, described) for each in map(to_document, rows)]
    if words:
        index.add(transaction, collection_key, index.prepare(words))
    if len(words) < limit:
        transaction.run("DELETE FROM words_to_index WHERE collection_key = ?", (collection_key,))
    else:
        transaction.run(
            "UPDATE words_to_index SET done_to = ? WHERE collection_key = ?", (words[-1].position, collection_key)
        )
    return len(words)
