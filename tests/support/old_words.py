"""Put catalogues in the state in which earlier releases, which indexed words differently, left them."""

from collections.abc import Sequence

from wrapper.catalog.contract import Transaction
from wrapper.catalog.rows import find_collection

NOT_IN_SEGMENTS = (
    "CREATE TEXT SEARCH DICTIONARY rag_english (TEMPLATE = pg_catalog.snowball, Language = english)",
    "CREATE TEXT SEARCH CONFIGURATION rag_words (COPY = pg_catalog.english)",
    "ALTER TEXT SEARCH CONFIGURATION rag_words ALTER MAPPING REPLACE pg_catalog.english_stem WITH rag_english",
    "CREATE TABLE words (position BIGINT NOT NULL, collection_key BIGINT NOT NULL, lexemes TSVECTOR NOT NULL)",
)
"""How words were indexed on PostgreSQL."""


def forget_words(
    transaction: Transaction, version: int, names: Sequence[str], *, interrupted_in: str | None = None
) -> None:
    """Leave the words of these collections, which must be all there are, as a release with that schema did. Until
    version 4 there were no headings, until 5 no tags, until 9 one table per collection on SQLite, and until 11 one for
    all on PostgreSQL, and no languages. With `interrupted_in`, from version 4 on, reindexing had begun and was
    interrupted in that collection."""
    on_sqlite = transaction.dialect.bytes_type == "BLOB"
    for name in names:
        key = find_collection(transaction, name).key
        transaction.dialect.text_index.drop(transaction, key)
        if on_sqlite and version < 9:
            transaction.run(f"CREATE VIRTUAL TABLE words_{key} USING fts5(text, identifiers, content='')")
    if on_sqlite and version >= 9:
        transaction.run("ALTER TABLE word_segments DROP COLUMN language")
    else:
        for table in ("word_segments", "word_blocks", "word_removals"):
            transaction.run(f"DROP TABLE {table}")
        transaction.run("DELETE FROM counters WHERE name = 'words'")
    for statement in () if on_sqlite else NOT_IN_SEGMENTS:
        transaction.run(statement)
    if version == 3:
        transaction.run("DROP TABLE words_to_index")
    elif interrupted_in is not None:
        key = find_collection(transaction, interrupted_in).key
        transaction.run("INSERT INTO words_to_index (collection_key, done_to) VALUES (?, 7)", (key,))
    transaction.run("DELETE FROM schema_version WHERE version > ?", (version,))
