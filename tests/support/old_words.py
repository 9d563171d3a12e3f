"""Put catalogues in the state in which earlier releases, which indexed words differently, left them."""

from __future__ import annotations

from collections.abc import Sequence

from wrapper.catalog.contract import Transaction
from wrapper.catalog.rows import find_collection


def forget_words(
    transaction: Transaction, version: int, names: Sequence[str], *, interrupted_in: str | None = None
) -> None:
    """Leave the words of these collections, which must be all there are, as a release with that schema did. Until
    version 4 there were no headings, until 5 no tags, and until 6 one table per collection on SQLite. With
    `interrupted_in`, from version 4 on, reindexing had begun and was interrupted in that collection."""
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
