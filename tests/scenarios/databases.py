"""On which databases scenarios run: on SQLite, and where the SQL differs, on PostgreSQL too; where in one some words are."""

import pytest

KINDS = ("sqlite", "postgresql")
ON_BOTH = pytest.mark.parametrize("app", KINDS, indirect=True, scope="session")


def tables_with(catalog, word):
    """Return the names of the tables of which any row holds the word."""
    every = "SELECT name FROM sqlite_master WHERE type = 'table'"
    if catalog.freely.kind != "sqlite":
        every = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    with catalog.freely.read() as transaction:
        return [name for (name,) in transaction.rows(every) if holds(transaction, name, word)]


def holds(transaction, table, word):
    return any(word in _readable(value) for row in transaction.rows(f"SELECT * FROM {table}") for value in row)


def _readable(value):
    if isinstance(value, bytes | memoryview):
        return bytes(value).replace(b"\0", b"").decode("latin-1").lower()
    return str(value).lower()
