"""Copies of a catalogue in PostgreSQL: its own tables, read in one snapshot by `COPY`, and what makes them anew.

Nothing but the server itself is needed, no program of it. What makes a table is asked of the server's own catalogue, so
tables of any release are copied as they are.
"""

from __future__ import annotations

import re
import secrets
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import orjson
import psycopg
from psycopg.sql import SQL, Composed, Identifier

from schemas.errors import ConfigurationError, ConflictError
from wrapper.catalog.postgres.own_tables import (
    EVER,
    HAS_WORD_RULES,
    NAMES_TAKEN,
    OF_PARTS,
    moves,
    others_tables,
    own_tables,
    size_bytes,
    tables_named,
)
from wrapper.catalog.postgres.place import SCHEMA, make_schema, rows_of
from wrapper.catalog.snapshots import BLOCK_BYTES, Contents, Receiver, Snapshot, contents

SCHEMA_MEMBER = "postgresql/schema.json"
TABLE_MEMBER = "postgresql/tables/"
MAX_SCHEMA_BYTES = 16 << 20
TOKEN_TABLE = "restore_under_way"
"""Has the token of a restore until its files are in their places. It is no part of the catalogue."""
LOCK_OF_TOKEN = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
"""Held by the transaction of a restore until everybody sees that it has committed, or it never will: a server completes
a commit whose client was killed."""
TABLES = """
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
  CASE WHEN a.attcollation <> t.typcollation THEN l.collname END, a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation l ON l.oid = a.attcollation
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(%s)
ORDER BY c.relname, a.attnum
"""
CONSTRAINTS = """
SELECT c.relname, k.conname, pg_get_constraintdef(k.oid, true)
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(%s) AND k.contype IN ('p', 'u', 'f')
ORDER BY k.contype = 'f', c.relname, k.conname
"""
INDEXES = """
SELECT pg_get_indexdef(i.indexrelid, 0, true)
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(%s)
  AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid)
ORDER BY 1
"""
WORD_RULES = (
    "CREATE TEXT SEARCH DICTIONARY rag_english (TEMPLATE = pg_catalog.snowball, Language = english)",
    "CREATE TEXT SEARCH CONFIGURATION rag_words (COPY = pg_catalog.english)",
    "ALTER TEXT SEARCH CONFIGURATION rag_words ALTER MAPPING REPLACE pg_catalog.english_stem WITH rag_english",
)
"""What earlier releases indexed words by."""
INDEX = re.compile(r'CREATE (?:UNIQUE )?INDEX ("[^"]*"|\S+) ON (?P<table>\S+) ')

Connect = Callable[[], psycopg.Connection]
Json = dict[str, Any]


class PostgresCopies:
    kind = "postgresql"
    needs_scratch = False
    errors: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error,)

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    def size_bytes(self) -> int:
        with closing(self._connect()) as connection:
            return size_bytes(rows_of(connection))

    def has_catalogue(self) -> bool:
        with closing(self._connect()) as connection:
            return bool(own_tables(rows_of(connection)))

    def schema_version(self) -> int:
        with closing(self._connect()) as connection:
            return _own_contents(connection).schema_version

    @contextmanager
    def snapshot(self, scratch: Path) -> Iterator[Snapshot]:
        with closing(self._connect()) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute("SET LOCAL statement_timeout = 0")
            yield Snapshot(_own_contents(connection), _members(connection))
            connection.execute("ROLLBACK")

    @contextmanager
    def trial(self, scratch: Path) -> Iterator[Receiver]:
        """Give a receiver that makes temporary tables, which nobody else sees and which end with the block."""
        with closing(self._connect()) as connection:
            connection.execute("BEGIN")
            connection.execute("SET LOCAL search_path TO pg_temp")
            yield PostgresReceiver(connection)
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")

    @contextmanager
    def restoring(self, aside: str | None, token: str) -> Iterator[tuple[PostgresReceiver, bool]]:
        """Give a receiver whose copy becomes the catalogue at the end of the block, all of it or nothing, and the token
        with it.

        A catalogue that is there is moved to the schema `aside`, and whether there is one is given, too. Raises
        ConflictError when there is one and no such schema is named, and ConfigurationError when it cannot be made.
        """
        with closing(self._connect()) as connection, connection.transaction():
            connection.execute(LOCK_OF_TOKEN, (token,))
            moved = _move_aside(connection, aside)
            yield PostgresReceiver(connection), moved
            connection.execute(SQL("CREATE TABLE {} (token TEXT NOT NULL)").format(Identifier(TOKEN_TABLE)))
            connection.execute(SQL("INSERT INTO {} VALUES (%s)").format(Identifier(TOKEN_TABLE)), (token,))

    def new_token(self) -> str:
        return f"{secrets.token_hex(16)}.{self._database()}"

    def gave(self, token: str) -> bool:
        return token.partition(".")[2] == self._database()

    def _database(self) -> str:
        """Return what tells a catalogue's place from those in other schemas, databases and servers."""
        with closing(self._connect()) as connection:
            names = _value(connection, f"SELECT md5(current_database() || '/' || {SCHEMA})")
            try:
                return f"{_value(connection, 'SELECT system_identifier FROM pg_control_system()')}.{names}"
            except psycopg.errors.InsufficientPrivilege:  # where the server is somebody else's
                return str(names)

    def was_restored(self, token: str) -> bool:
        with closing(self._connect()) as connection, connection.transaction():
            connection.execute(LOCK_OF_TOKEN, (token,))
            if not tables_named(rows_of(connection), (TOKEN_TABLE,)):
                return False
            found = connection.execute(SQL("SELECT token FROM {}").format(Identifier(TOKEN_TABLE))).fetchall()
            return found == [(token,)]

    def forget_token(self) -> None:
        with closing(self._connect()) as connection:
            connection.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(TOKEN_TABLE)))


class PostgresReceiver:
    """Makes tables in the first schema of the connection's search path, inside its transaction."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._schema: Json | None = None
        self._left_out: set[str] = set()
        connection.execute("SET LOCAL statement_timeout = 0")

    def takes(self, name: str) -> bool:
        return name == SCHEMA_MEMBER or name.startswith(TABLE_MEMBER)

    def take(self, name: str, content: Iterator[bytes]) -> None:
        with _faults():
            self._take(name, content)

    def finish(self) -> Contents:
        with _faults():
            return self._finish()

    def _take(self, name: str, content: Iterator[bytes]) -> None:
        if name == SCHEMA_MEMBER:
            self._make_tables(content)
            return
        table = name.removeprefix(TABLE_MEMBER)
        if table in self._left_out:
            deque(content, maxlen=0)
            return
        if self._schema is None or table not in self._schema["tables"]:
            raise ValueError("it has rows of a table that it does not describe")
        columns = [column["name"] for column in self._schema["tables"][table]]
        with self._connection.cursor() as cursor, cursor.copy(_copy(table, columns, "FROM STDIN")) as copy:
            for block in content:
                copy.write(block)

    def _finish(self) -> Contents:
        if self._schema is None:
            raise ValueError("it has no catalogue")
        for table, name, definition in self._schema["constraints"]:
            if table in self._left_out:
                continue
            statement = SQL("ALTER TABLE {} ADD CONSTRAINT {} {}")
            self._run(statement.format(Identifier(table), Identifier(name), SQL(definition)))
        for definition in self._schema["indexes"]:
            found = INDEX.match(definition)
            if found is None:
                raise ValueError("it has an index that is none")
            if found["table"] not in self._left_out:
                self._run(SQL(definition))
        if "histories" in self._schema["tables"]:
            self._connection.execute("UPDATE histories SET id = %s", (str(uuid.uuid4()),))
        if "part_versions" in self._schema["tables"]:
            parts = {str(part) for (part,) in self._connection.execute("SELECT part FROM part_versions")}
            if unknown := sorted(parts - OF_PARTS.keys()):
                raise ValueError(f"a newer release wrote it: this one knows nothing of '{unknown[0]}'")
        return _contents(self._connection, self._schema["tables"])

    def _is_temporary(self) -> bool:
        return str(_value(self._connection, "SHOW search_path")) == "pg_temp"

    def _make_tables(self, content: Iterator[bytes]) -> None:
        described = bytearray()
        for block in content:
            described += block
            if len(described) > MAX_SCHEMA_BYTES:
                raise ValueError("the description of its tables is too long")
        schema: Json = orjson.loads(described)
        if schema["word_rules"] and not self._is_temporary():
            for statement in WORD_RULES:
                self._run(SQL(statement))
        # Earlier releases took what other programs had beside a catalogue for a part of it.
        self._left_out = schema["tables"].keys() - EVER
        schema["tables"] = {table: columns for table, columns in schema["tables"].items() if table in EVER}
        names = () if self._is_temporary() else rows_of(self._connection)(NAMES_TAKEN)
        if taken := [name for (name,) in names if name in schema["tables"]]:
            raise others_tables(taken)
        for table, columns in schema["tables"].items():
            self._run(SQL("CREATE TABLE {} ({})").format(Identifier(table), SQL(", ").join(map(_column, columns))))
        self._schema = schema

    def _run(self, statement: SQL | Composed) -> None:
        # A prepared statement is one statement, whatever the text of a definition says.
        self._connection.execute(statement, prepare=True)


@contextmanager
def _faults() -> Iterator[None]:
    """Raise ValueError for what the database says of a faulty copy, and its own errors for everything else."""
    try:
        yield
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            raise
        raise ValueError(str(error).partition("\n")[0]) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("the description of its tables cannot be read") from error


def _column(column: Json) -> Composed:
    spelled = SQL("{} {}").format(Identifier(column["name"]), SQL(column["type"]))
    if column["collation"]:
        spelled += SQL(" COLLATE {}").format(Identifier(column["collation"]))
    if column["default"] is not None:
        spelled += SQL(" DEFAULT ") + SQL(column["default"])
    return spelled + SQL(" NOT NULL") if column["not_null"] else spelled


def _members(connection: psycopg.Connection) -> Iterator[tuple[str, Iterator[bytes]]]:
    schema = _described(connection)
    yield SCHEMA_MEMBER, iter([orjson.dumps(schema)])
    for table, columns in schema["tables"].items():
        yield f"{TABLE_MEMBER}{table}", _rows(connection, table, [column["name"] for column in columns])


def _described(connection: psycopg.Connection) -> Json:
    tables: dict[str, list[Json]] = {}
    ours = (own_tables(rows_of(connection)),)
    for table, name, kind, collation, not_null, default in connection.execute(TABLES, ours):
        column = {"name": name, "type": kind, "collation": collation, "not_null": not_null, "default": default}
        tables.setdefault(table, []).append(column)
    return {
        "tables": tables,
        "constraints": [list(row) for row in connection.execute(CONSTRAINTS, ours)],
        "indexes": [definition for (definition,) in connection.execute(INDEXES, ours)],
        "word_rules": connection.execute(HAS_WORD_RULES).fetchone() is not None,
    }


def _rows(connection: psycopg.Connection, table: str, columns: list[str]) -> Iterator[bytes]:
    held = bytearray()
    with connection.cursor() as cursor, cursor.copy(_copy(table, columns, "TO STDOUT")) as copy:
        for piece in copy:
            held += piece
            if len(held) >= BLOCK_BYTES:
                yield bytes(held)
                held.clear()
    yield bytes(held)


def _copy(table: str, columns: list[str], direction: str) -> Composed:
    named = SQL(", ").join(map(Identifier, columns))
    return SQL("COPY {} ({}) {}").format(Identifier(table), named, SQL(direction))


def _own_contents(connection: psycopg.Connection) -> Contents:
    return _contents(connection, own_tables(rows_of(connection)))


def _contents(connection: psycopg.Connection, tables: Collection[str]) -> Contents:
    return contents(tables, lambda statement: _value(connection, statement))


def _value(connection: psycopg.Connection, statement: str) -> Any:
    row = connection.execute(statement.encode()).fetchone()
    return None if row is None else row[0]


def _move_aside(connection: psycopg.Connection, aside: str | None) -> bool:
    """Return whether there was a catalogue, which has been moved."""
    names = own_tables(rows_of(connection))
    if not names:
        make_schema(connection)
        return False
    if aside is None:
        raise ConflictError(
            "The database has a catalogue already: restore where none is (RAG_CATALOG_URL, RAG_CATALOG_SCHEMA), or say "
            "--replace, which moves its tables to a schema of their own",
            code="not_empty",
        )
    try:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(aside)))
    except psycopg.errors.InsufficientPrivilege:
        raise ConfigurationError(
            "The catalogue in the database is moved to a schema of its own, and the role in RAG_CATALOG_URL may make "
            "none: GRANT CREATE ON DATABASE to it, or restore where no catalogue is",
            field="RAG_CATALOG_URL",
        ) from None
    for statement in moves(rows_of(connection), aside):
        connection.execute(statement.encode())
    return True
