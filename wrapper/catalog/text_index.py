"""The word index of each collection on SQLite: one contentless FTS5 table, so that texts are not stored twice, word
statistics are the collection's own, and dropping a collection is cheap."""

from __future__ import annotations

from wrapper.catalog.dialect import WordRow
from wrapper.catalog.transaction import Sql, Transaction
from wrapper.catalog.words import HEADING_WEIGHT, TAGS_WEIGHT, identifier_words, match_expression


def create(transaction: Transaction, collection_key: int) -> None:
    transaction.run(
        f"CREATE VIRTUAL TABLE {_table(collection_key)} USING fts5"
        "(heading, text, tags, identifiers, content='', tokenize=\"porter unicode61 remove_diacritics 2\")"
    )


def drop(transaction: Transaction, collection_key: int) -> None:
    transaction.run(f"DROP TABLE IF EXISTS {_table(collection_key)}")


def add(transaction: Transaction, collection_key: int, rows: list[WordRow]) -> None:
    transaction.run_many(
        f"INSERT INTO {_table(collection_key)} (rowid, heading, text, tags, identifiers) VALUES (?, ?, ?, ?, ?)",
        [(*row, _identifiers(row)) for row in rows],
    )


def remove(transaction: Transaction, collection_key: int, rows: list[WordRow]) -> None:
    """Take documents out again; a contentless index must be told what it had been given."""
    table = _table(collection_key)
    transaction.run_many(
        f"INSERT INTO {table} ({table}, rowid, heading, text, tags, identifiers) VALUES ('delete', ?, ?, ?, ?, ?)",
        [(*row, _identifiers(row)) for row in rows],
    )


def search(collection_key: int, query: str) -> Sql | None:
    """Scored by BM25."""
    expression = match_expression(query)
    if expression is None:
        return None
    table = _table(collection_key)
    score = f"-bm25({table}, {HEADING_WEIGHT}, 1.0, {TAGS_WEIGHT})"
    return Sql(f"SELECT rowid AS position, {score} AS score FROM {table} WHERE {table} MATCH ?", (expression,))


def _identifiers(row: WordRow) -> str:
    return identifier_words(f"{row.heading}\n{row.text}")


def _table(collection_key: int) -> str:
    return f"words_{int(collection_key)}"
