"""The names of the tables that the catalogue and the layers above it keep. What else is in a database on PostgreSQL is
somebody else's: it is not copied, moved, measured or written anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from schemas.errors import ConfigurationError
from wrapper.catalog.tables import metadata, postgres_metadata

OF_PARTS = {
    "api keys": ("api_keys", "api_key_changes"),
    "benches": ("benches",),
    "call sizes": ("call_sizes",),
    "chat history": ("chat_messages",),
    "circuit breakers": ("circuit_breakers",),
    "connections": ("connections", "connection_looks", "chosen_connections"),
    "console sessions": ("console_sessions",),
    "conversations": ("conversation_topics",),
    "daily use": ("daily_use",),
    "erasure count": ("erasure_count", "erasure_marks"),
    "jobs": ("jobs", "job_files"),
    "judgements": ("judgements",),
    "kept answers": ("kept_answers",),
    "kept_files": ("kept_files",),
    "search metrics": ("search_metrics", "search_metrics_forgotten"),
    "sessions": ("note_sessions",),
    "vector_stores": ("vector_stores", "passed_places"),
    "watchers": ("watchers",),
}
"""The tables of each named part (`wrapper.catalog.migrations.migrate_part`). One that is given up stays here as long as
catalogues may have it: a backup with an unknown part is not taken."""
OF_EVERYBODY = frozenset({"schema_version", "part_versions", *metadata.tables, *postgres_metadata.tables})
WORDS = "words"
"""The table of words that earlier releases had, beside the rules that only they made."""
HAS_WORD_RULES = (
    "SELECT 1 FROM pg_ts_config WHERE cfgname = 'rag_words' AND cfgnamespace = current_schema()::regnamespace"
)
EVER = OF_EVERYBODY.union((WORDS,), *OF_PARTS.values())
"""The names of all tables that any release has made."""
MARKS = (
    ("schema_version", "version"),
    ("counters", "value"),
    ("outbox", "payload"),
    ("embeddings", "vector"),
    ("document_fields", "rest"),
    ("idempotency_keys", "request_digest"),
)
"""Tables and columns that every catalogue on PostgreSQL has: by all of them together one is recognised."""
IS_CATALOGUE = (
    f"SELECT count(*) = {len(MARKS)} FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
    "JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = {schema} AND c.relkind = 'r' AND has_schema_privilege(n.oid, 'USAGE') "
    f"AND has_table_privilege(c.oid, 'SELECT') AND (c.relname, a.attname) IN {MARKS}"
)
"""Says whether a schema has a catalogue that this role may read."""
NAMES_TAKEN = (
    "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
    "UNION SELECT typname FROM pg_type WHERE typnamespace = current_schema()::regnamespace"
)
"""Returns the names in the first schema of the search path that no table made there may have: those of tables, views,
indexes, sequences and types."""

Rows = Callable[[str], Sequence[Sequence[Any]]]
"""Returns the rows of a statement."""


def own_tables(rows: Rows) -> list[str]:
    """Return the names of our tables in the first schema of the search path on PostgreSQL, none where there is no
    catalogue."""
    if not rows(IS_CATALOGUE.format(schema="current_schema()"))[0][0]:
        return []
    there = tables_named(rows, EVER)
    parts = rows("SELECT part FROM part_versions") if "part_versions" in there else ()
    ours = OF_EVERYBODY.union(*(OF_PARTS.get(part, ()) for (part,) in parts))
    return [name for name in there if name in ours or (name == WORDS and rows(HAS_WORD_RULES))]


def tables_named(rows: Rows, names: Iterable[str]) -> list[str]:
    """Return which of these names tables have in the first schema of the search path."""
    found = rows(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' "
        f"AND relname IN ({_quoted(names)}) ORDER BY relname"
    )
    return [str(name) for (name,) in found]


def size_bytes(rows: Rows) -> int:
    """Return how much our tables take on the disk, with their indexes."""
    quoted = ", ".join(f"'{name}'::regclass" for name in own_tables(rows))
    sizes = f"SELECT pg_total_relation_size(ours) AS bytes FROM unnest(ARRAY[{quoted}]::regclass[]) AS ours"
    [[size]] = rows(f"SELECT coalesce(sum(bytes), 0)::bigint FROM ({sizes}) AS sizes")
    return int(size)


def moves(rows: Rows, there: str) -> list[str]:
    """Return the statements that move the catalogue in the first schema of the search path to another schema."""
    [[here, there]] = rows(f"SELECT quote_ident(current_schema()), quote_ident({_quoted([there])})")
    ours = [("TABLE", name) for name in own_tables(rows)]
    if rows(HAS_WORD_RULES):
        ours += [("TEXT SEARCH CONFIGURATION", "rag_words"), ("TEXT SEARCH DICTIONARY", "rag_english")]
    return [f"ALTER {kind} {here}.{name} SET SCHEMA {there}" for kind, name in ours]


def as_one(statements: Iterable[str]) -> str:
    """Return statements as a text to run, which takes effect as a whole."""
    return " ".join(f"{each};" for each in ("BEGIN", *statements, "COMMIT"))


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join("'" + text.replace("'", "''") + "'" for text in sorted(texts))


def others_tables(names: Iterable[str]) -> ConfigurationError:
    what = "tables, or views, types or the like, of another program"
    return ConfigurationError(
        f"The catalogue's database has {what}: {', '.join(sorted(names))}. If they are of a catalogue that was moved, "
        "move all of it"
    )
