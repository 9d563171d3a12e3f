"""The words of stored documents indexed anew, when a release indexes them in another way than the one before.

A step of `wrapper/catalog/migrations.py` lists the collections in `words_to_index`. Their documents are then indexed in
batches, each in a transaction of its own: few texts are in memory, what is interrupted goes on where it was, and those
who open the catalogue at the same time share the work. Nobody reads or writes documents before it is done.
"""

from __future__ import annotations

import structlog

from wrapper.catalog.rows import DOCUMENT, to_document
from wrapper.catalog.transaction import Transaction
from wrapper.catalog.writes import word_row

log = structlog.get_logger(__name__)

DOCUMENTS_AT_ONCE = 500

_NEXT = "SELECT collection_key, done_to FROM words_to_index ORDER BY collection_key LIMIT 1"


def is_due(transaction: Transaction) -> bool:
    return transaction.row(_NEXT) is not None


def index_next(transaction: Transaction) -> None:
    """Index one batch, if anything is left to do."""
    listed = transaction.row(_NEXT)
    if listed is None:
        return
    collection_key, done_to = listed
    index = transaction.dialect.text_index
    if done_to == 0:
        log.info("indexing the words of a collection anew", collection_key=collection_key)
        index.drop(transaction, collection_key)
        index.create(transaction, collection_key)
    rows = transaction.rows(
        f"SELECT {DOCUMENT} FROM documents d WHERE d.collection_key = ? AND d.position > ? ORDER BY d.position LIMIT ?",
        (collection_key, done_to, DOCUMENTS_AT_ONCE),
    )
    if rows:
        words = [word_row(document) for document in map(to_document, rows)]
        index.add(transaction, collection_key, words)
        transaction.run(
            "UPDATE words_to_index SET done_to = ? WHERE collection_key = ?", (words[-1].position, collection_key)
        )
    else:
        transaction.run("DELETE FROM words_to_index WHERE collection_key = ?", (collection_key,))
