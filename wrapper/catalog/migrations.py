"""The catalogue's schema, in numbered steps that run once, each in the transaction that records it.

Layers above keep tables of their own in the same database, as named parts with numbered steps of their own.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import orjson
from sqlalchemy import Column, Connection, inspect, text

from schemas.errors import ConfigurationError
from schemas.names import DEFAULT_DATABASE, DEFAULT_TENANT
from schemas.sealed_cursors import new_key
from schemas.storage.engine_records import FULL
from wrapper.catalog import tables
from wrapper.catalog.postgres.own_tables import HAS_WORD_RULES, NAMES_TAKEN, others_tables
from wrapper.catalog.texts.signatures import COLUMNS, signature
from wrapper.catalog.words.old_tables import drop_old_tables

BYTE_LENGTHS = {"sqlite": "length(CAST({} AS BLOB))", "postgresql": "octet_length({})"}
"""The bytes of a text as each database stores it."""
TEXTS_AT_ONCE = 1_000
OWN_TABLES = {
    "schema_version": {"version"},
    "document_fields": set(tables.document_fields.columns.keys()),
    **{name: set(table.columns.keys()) for name, table in tables.metadata.tables.items()},
}
"""The columns of each of our tables."""
OWN_TABLES["idempotency_keys"].add("answer")  # of earlier releases
NAMES_MADE = OWN_TABLES.keys() | {index.name for table in tables.metadata.tables.values() for index in table.indexes}
"""The names that a new catalogue gives to what it makes."""
CATALOGUE = {"schema_version", "counters", "outbox"}
"""The tables by which a catalogue is recognised."""
OF_EVERY_CATALOGUE = CATALOGUE | {"collections", "documents", "embeddings", "document_fields", "idempotency_keys"}
"""The tables that every release has made."""
CREATES = re.compile(r"CREATE TABLE (\w+)")
NAMES_TAKEN_BY_DIALECT = {"sqlite": "SELECT name FROM sqlite_master", "postgresql": NAMES_TAKEN}
"""Return the names that no table made now may have."""


def _first_tables(connection: Connection) -> None:
    tables.metadata.create_all(connection)
    if connection.dialect.name == "sqlite":
        tables.sqlite_metadata.create_all(connection)
    else:
        tables.postgres_metadata.create_all(connection)
    connection.execute(
        tables.counters.insert(), [{"name": name, "value": 0} for name in ("collection", "document", "outbox")]
    )


def _index_reports(connection: Connection) -> None:
    tables.index_reports.create(connection, checkfirst=True)


def _adoptions(connection: Connection) -> None:
    tables.adoptions.create(connection, checkfirst=True)


def _reindex_words(connection: Connection) -> None:
    tables.words_to_index.create(connection, checkfirst=True)
    connection.execute(tables.words_to_index.delete())
    connection.execute(text("INSERT INTO words_to_index (collection_key, done_to) SELECT key, 0 FROM collections"))


def _collection_ids(connection: Connection) -> None:
    _add_column(connection, tables.collections.c.id)
    for (key,) in connection.execute(text("SELECT key FROM collections WHERE id IS NULL")).fetchall():
        connection.execute(
            text("UPDATE collections SET id = :id WHERE key = :key"), {"id": str(uuid.uuid4()), "key": key}
        )


def _no_texts_in_answers(connection: Connection) -> None:
    if not _keeps_answers(connection):
        return
    change = text("UPDATE idempotency_keys SET answer = :kept WHERE key = :key")
    for key, stored in connection.execute(text("SELECT key, answer FROM idempotency_keys")).fetchall():
        answer, etag = orjson.loads(stored)
        if "text" in answer:
            connection.execute(change, {"kept": orjson.dumps([{"id": answer["id"]}, etag]), "key": key})


def _set_aside(connection: Connection) -> None:
    for table in (tables.set_aside, tables.standstills, tables.identity):
        table.create(connection, checkfirst=True)
    drawn = "INSERT INTO identity (uuid) SELECT :drawn WHERE NOT EXISTS (SELECT 1 FROM identity)"
    connection.execute(text(drawn), {"drawn": str(uuid.uuid4())})


def _one_word_index(connection: Connection) -> None:
    if connection.dialect.name != "sqlite":
        return
    drop_old_tables(connection)
    _reindex_words(connection)


def _words_by_language(connection: Connection) -> None:
    """Both databases have their words in segments, which know their language."""
    if connection.dialect.name == "postgresql" and connection.execute(text(HAS_WORD_RULES)).first():
        connection.execute(text("DROP TABLE words"))
        connection.execute(text("DROP TEXT SEARCH CONFIGURATION rag_words"))
        connection.execute(text("DROP TEXT SEARCH DICTIONARY rag_english"))
    for table in (tables.word_segments, tables.word_blocks, tables.word_removals):
        table.drop(connection, checkfirst=True)
        table.create(connection)
    connection.execute(text("INSERT INTO counters (name, value) VALUES ('words', 0) ON CONFLICT (name) DO NOTHING"))
    _reindex_words(connection)


def _outcomes(connection: Connection) -> None:
    if _keeps_answers(connection):
        connection.execute(text("ALTER TABLE idempotency_keys RENAME COLUMN answer TO outcome"))


def _keeps_answers(connection: Connection) -> bool:
    """Return whether idempotency keys have the form from before they kept outcomes; their content stays as it is."""
    return any(column["name"] == "answer" for column in inspect(connection).get_columns("idempotency_keys"))


def _collection_bytes(connection: Connection) -> None:
    """Each collection knows how many bytes it holds, as `wrapper/catalog/stored_bytes.py` counts them."""
    if not any(column["name"] == "bytes" for column in inspect(connection).get_columns("collections")):
        connection.execute(text("ALTER TABLE collections ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0"))
    length = BYTE_LENGTHS[connection.dialect.name]
    size = f"{length.format('d.text')} + {length.format('d.metadata')} + length(e.vector)"
    connection.execute(
        text(
            f"UPDATE collections SET bytes = (SELECT coalesce(sum({size}), 0) FROM documents d "
            "JOIN embeddings e ON e.position = d.position WHERE d.collection_key = collections.key)"
        )
    )


def _cursor_keys(connection: Connection) -> None:
    tables.cursor_keys.create(connection, checkfirst=True)
    drawn = "INSERT INTO cursor_keys (key) SELECT :drawn WHERE NOT EXISTS (SELECT 1 FROM cursor_keys)"
    connection.execute(text(drawn), {"drawn": new_key()})


def _renamed_collections(connection: Connection) -> None:
    """A collection keeps the name that the engine has for it, and may have aliases."""
    _add_column(connection, tables.collections.c.engine_name)
    connection.execute(text("UPDATE collections SET engine_name = name WHERE engine_name IS NULL"))
    for index in tables.collections.indexes:
        index.create(connection, checkfirst=True)
    tables.aliases.create(connection, checkfirst=True)


def _tenants_and_databases(connection: Connection) -> None:
    """Collections may be in other databases than the default one, and are kept as Chroma's clients give them."""
    if connection.dialect.name == "postgresql":
        wide = tables.collections.c.name.type.compile(connection.dialect)
        connection.execute(text(f"ALTER TABLE collections ALTER COLUMN name TYPE {wide}"))
        connection.execute(text(f"ALTER TABLE aliases ALTER COLUMN alias TYPE {wide}"))
    _add_column(connection, tables.collections.c.configuration)
    _add_column(connection, tables.documents.c.extras)
    for index in tables.collections.indexes:
        index.create(connection, checkfirst=True)
    for table in (tables.tenants, tables.databases):
        table.create(connection, checkfirst=True)
    if connection.execute(tables.tenants.select()).first() is None:
        connection.execute(tables.tenants.insert(), {"name": DEFAULT_TENANT})
        made = {"tenant": DEFAULT_TENANT, "name": DEFAULT_DATABASE, "id": str(uuid.uuid4())}
        connection.execute(tables.databases.insert(), made)


def _text_signatures(connection: Connection) -> None:
    """Every document has the signature of its text."""
    tables.text_signatures.create(connection, checkfirst=True)
    connection.execute(tables.text_signatures.delete())
    names = ("collection_key", "position", *COLUMNS)
    insert = tables.text_signatures.insert()
    following = text(
        "SELECT collection_key, position, text FROM documents WHERE position > :after ORDER BY position LIMIT :most"
    )
    after = 0
    while rows := connection.execute(following, {"after": after, "most": TEXTS_AT_ONCE}).fetchall():
        after = rows[-1][1]
        signed = [(key, position, *signature(content)) for key, position, content in rows]
        connection.execute(insert, [dict(zip(names, row, strict=True)) for row in signed])


def _change_feed(connection: Connection) -> None:
    """Documents know the revision that wrote them, 0 for those from before. Deletions leave tombstones from now on."""
    for table, column in (("documents", "revision"), ("collections", "deletions_since")):
        if not any(each["name"] == column for each in inspect(connection).get_columns(table)):
            connection.execute(text(f"ALTER TABLE {table} ADD COLUMN {column} BIGINT NOT NULL DEFAULT 0"))
    [by_revision] = [index for index in tables.documents.indexes if index.name == "documents_by_revision"]
    by_revision.create(connection, checkfirst=True)
    tables.tombstones.create(connection, checkfirst=True)
    tables.histories.create(connection, checkfirst=True)
    drawn = "INSERT INTO histories (id) SELECT :drawn WHERE NOT EXISTS (SELECT 1 FROM histories)"
    connection.execute(text(drawn), {"drawn": str(uuid.uuid4())})
    connection.execute(text("UPDATE collections SET deletions_since = revision"))


def _outbox_sizes(connection: Connection) -> None:
    """Every entry of the outbox says how many documents it is about."""
    _add_column(connection, tables.outbox.c.documents)
    change = text("UPDATE outbox SET documents = :documents WHERE id = :id")
    waiting = text(
        "SELECT id, payload FROM outbox WHERE documents IS NULL AND kind = 'documents' AND id > :after "
        "ORDER BY id LIMIT 1"
    )
    after = 0
    while row := connection.execute(waiting, {"after": after}).first():
        after, payload = row[0], orjson.loads(row[1])
        connection.execute(change, {"documents": len(payload["upsert"]) + len(payload["delete"]), "id": after})
    connection.execute(text("DROP INDEX IF EXISTS outbox_by_collection"))
    for index in tables.outbox.indexes:
        index.create(connection, checkfirst=True)


def _engine_records(connection: Connection) -> None:
    """Every collection that has an index knows what its records have: all that the documents have, until now."""
    _add_column(connection, tables.collections.c.engine_records)
    change = "UPDATE collections SET engine_records = :full WHERE engine_records IS NULL AND engine_id IS NOT NULL"
    connection.execute(text(change), {"full": FULL})


def _promised_recall(connection: Connection) -> None:
    """Reports know the recall with filters, and how widely an index is searched."""
    for name in ("filtered_recall_at_10", "candidates", "search_width"):
        _add_column(connection, tables.index_reports.c[name])


def _add_column(connection: Connection, column: Column[Any]) -> None:
    """Add a column that may be null to its table, unless it is there."""
    if any(each["name"] == column.name for each in inspect(connection).get_columns(column.table.name)):
        return
    kind = column.type.compile(connection.dialect)
    connection.execute(text(f"ALTER TABLE {column.table.name} ADD COLUMN {column.name} {kind}"))


STEPS: list[Callable[[Connection], None]] = [
    _first_tables,
    _index_reports,
    _adoptions,
    _reindex_words,  # with headings
    _reindex_words,  # with tags
    _collection_ids,
    _no_texts_in_answers,
    _set_aside,
    _one_word_index,
    _outcomes,
    _words_by_language,
    _collection_bytes,
    _cursor_keys,
    _renamed_collections,
    _tenants_and_databases,
    _text_signatures,
    _change_feed,
    _outbox_sizes,
    _engine_records,
    _promised_recall,
]
NEWEST = len(STEPS)
"""The version of the schema that this release makes."""

TYPES = {
    "sqlite": {"text": "TEXT", "bytes": "BLOB"},
    "postgresql": {"text": 'TEXT COLLATE "C"', "bytes": "BYTEA"},
}


def migrate(connection: Connection) -> None:
    """Bring the database to the newest version, inside the caller's write transaction.

    Raises ConfigurationError when a newer release wrote the schema, when another program has tables with our names
    in the database, or when tables are missing.
    """
    names = set(inspect(connection).get_table_names())
    version = 0
    if names >= CATALOGUE:
        version = connection.execute(text("SELECT max(version) FROM schema_version")).scalar() or 0
    elif taken := _names(connection) & NAMES_MADE:
        raise others_tables(taken)
    if version > len(STEPS):
        raise ConfigurationError(
            f"The catalogue has schema version {version}, this release knows {len(STEPS)}: use the newer release",
            version=version,
        )
    if names >= CATALOGUE:
        _check_whole(names, OF_EVERY_CATALOGUE.union(tables.metadata.tables if version == len(STEPS) else ()))
    if version < len(STEPS):
        _check_tables(connection, names)
    if "schema_version" not in names:
        connection.execute(text("CREATE TABLE schema_version (version INTEGER NOT NULL)"))
    for number, step in enumerate(STEPS[version:], start=version + 1):
        step(connection)
        connection.execute(text("INSERT INTO schema_version VALUES (:version)"), {"version": number})


def _check_tables(connection: Connection, names: Collection[str]) -> None:
    """Raise ConfigurationError where a step would take a table of another program for ours, for it has our name."""
    inspector = inspect(connection)

    def columns(table: str) -> set[str]:
        return {each["name"] for each in inspector.get_columns(table)}

    there = OWN_TABLES.keys() & _names(connection)
    if taken := [name for name in there if name not in names or not columns(name) <= OWN_TABLES[name]]:
        raise others_tables(taken)


def _check_whole(names: Collection[str], needed: Iterable[str]) -> None:
    """Raise ConfigurationError where needed tables of a catalogue are not among the `names`."""
    if missing := sorted(set(needed).difference(names)):
        raise ConfigurationError(
            f"The catalogue is not whole, it lacks tables: {', '.join(missing)}. If it was moved, move all of it; "
            "otherwise restore a backup"
        )


def _names(connection: Connection) -> set[str]:
    return set(connection.exec_driver_sql(NAMES_TAKEN_BY_DIALECT[connection.dialect.name]).scalars())


def migrate_part(connection: Connection, part: str, steps: Sequence[Sequence[str]]) -> None:
    """Bring the tables of a part to their newest version, inside the caller's write transaction.

    Each step is a sequence of statements that both databases understand, in which `{text}` and `{bytes}` stand for the
    types of the database. Raises ConfigurationError when a newer release wrote the part, or another program has a table
    of a name that it needs.
    """
    types = TYPES[connection.dialect.name]
    connection.execute(text("CREATE TABLE IF NOT EXISTS part_versions (part VARCHAR(64) PRIMARY KEY, version INTEGER)"))
    known = text("SELECT version FROM part_versions WHERE part = :part")
    version = connection.execute(known, {"part": part}).scalar() or 0
    if version > len(steps):
        raise ConfigurationError(
            f"The tables of '{part}' have version {version}, this release knows {len(steps)}: use the newer release",
            version=version,
        )
    if version == len(steps):
        created = {made[1] for step in steps for made in map(CREATES.match, step) if made is not None}
        _check_whole(_names(connection), created)
        return  # without a write: a full disk has no room for one
    for step in steps[version:]:
        for statement in step:
            made = CREATES.match(statement)
            if made is not None and made[1] in _names(connection):
                raise others_tables([made[1]])
            connection.exec_driver_sql(statement.format(**types))
    connection.execute(text("DELETE FROM part_versions WHERE part = :part"), {"part": part})
    connection.execute(
        text("INSERT INTO part_versions VALUES (:part, :version)"), {"part": part, "version": len(steps)}
    )
