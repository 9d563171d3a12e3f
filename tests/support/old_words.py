"""Catalogues as earlier releases left them, whose words were indexed in other ways."""

from __future__ import annotations

from collections.abc import Sequence

from wrapper.catalog.rows import find_collection
from wrapper.catalog.transaction import Transaction


def forget_words(
    transaction: Transaction, version: int, names: Sequence[str], *, interrupted_in: str | None = None
) -> None:
    """Leave the words of these collections, which are all there are, as a release of that schema did. Until version 4
    there were no headings, until 5 no tags, until 6 a table for each collection on SQLite. With `interrupted_in` an
    indexing anew had begun from version 4 on, and was interrupted in that collection."""
    on_sqlite = transaction.dialect.bytes_type == "BLOB"
    for name in names:
        key = find_collection(transaction, name).key
        if version < 5 or on_sqlite:
            transaction.dialect.text_index.drop(transaction, key)
        if on_sqlite:
            transaction.run(f"CREATE VIRTUAL TABLE words_{key} USING fts5(text, identifiers, content='')")
    if on_sqlite:
        for table in ("word_segments", "word_blocks", "word_removals"):
            transaction.run(f"DROP TABLE {table}")
        transaction.run("DELETE FROM counters WHERE name = 'words'")
    if version == 3:
        transaction.run("DROP TABLE words_to_index")
    elif interrupted_in is not None and (version == 4 or on_sqlite):
        key = find_collection(transaction, interrupted_in).key
        transaction.run("INSERT INTO words_to_index (collection_key, done_to) VALUES (?, 7)", (key,))
    transaction.run("DELETE FROM schema_version WHERE version > ?", (version,))
