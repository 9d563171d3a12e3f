"""The schema of a catalogue on PostgreSQL: which one it is, and making it.

Connections have it alone in their search path, and its name in a setting of their own, also before it is made.
"""

from __future__ import annotations

import psycopg
import structlog
from psycopg.sql import SQL, Identifier, Literal

from schemas.errors import ConfigurationError
from schemas.settings.storage import OWN_SCHEMA
from wrapper.catalog.postgres.own_tables import IS_CATALOGUE, Rows, as_one, moves, own_tables

log = structlog.get_logger(__name__)

PUBLIC = "public"
SCHEMA = "current_setting('rag_wrapper.schema')"
"""The name of the catalogue's schema, whether it is there or not."""


def find_schema(connection: psycopg.Connection, wanted: str, *, is_in_address: bool) -> str:
    """Return the schema of the catalogue, on a connection as its address makes it.

    That is the `wanted` one. Without, it is `OWN_SCHEMA`, unless the address names another one by its search path, or
    leads to one where a catalogue is already: those of earlier releases are in `public`.
    """
    if wanted:
        return wanted
    addressed = _addressed(connection)
    if addressed is None:
        return OWN_SCHEMA
    if is_in_address or (not _has_catalogue(connection, OWN_SCHEMA) and _has_catalogue(connection, addressed)):
        return addressed
    return OWN_SCHEMA


def check_schema(connection: psycopg.Connection, wanted: str) -> None:
    """Raise ConfigurationError when no catalogue is in the `wanted` schema, but one where the address leads, or in
    `public`. The connection may have another search path afterwards."""
    if not wanted or _has_catalogue(connection, wanted):
        return
    connection.execute("RESET search_path")
    for other in dict.fromkeys((_addressed(connection), PUBLIC)):
        if other is not None and _has_catalogue(connection, other):
            enter_schema(connection, other)
            make = f"CREATE SCHEMA IF NOT EXISTS {Identifier(wanted).as_string(None)}"
            statements = as_one([make, *moves(rows_of(connection), wanted)])
            raise ConfigurationError(
                f"RAG_CATALOG_SCHEMA: there is no catalogue in the schema '{wanted}', but one in the schema '{other}' "
                f"of its database. RAG_CATALOG_SCHEMA={other} goes on there. To move it, restore a backup of it with "
                f"RAG_CATALOG_SCHEMA={wanted}, or stop its services and run: {statements}",
                field="RAG_CATALOG_SCHEMA",
            )


def enter_schema(connection: psycopg.Connection, schema: str) -> None:
    """Let a connection see the tables of this schema alone."""
    settings = SQL("SET search_path TO {}; SET rag_wrapper.schema = {}")
    connection.execute(settings.format(Identifier(schema), Literal(schema)), prepare=False)


def make_schema(connection: psycopg.Connection) -> None:
    """Make the schema that the connection has entered, unless it is there for this role to use.

    Raises ConfigurationError when the role may neither use nor make it.
    """
    if _may_make_tables(connection) or own_tables(rows_of(connection)):
        return
    row = connection.execute(f"SELECT {SCHEMA}, current_user, current_database()".encode()).fetchone()
    assert row is not None
    schema, role, database = row
    try:
        connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(schema)))
    except psycopg.errors.InsufficientPrivilege:
        raise _may_not(schema, role, database) from None
    if not _may_make_tables(connection):
        raise _may_not(schema, role, database)
    log.info("made the schema of the catalogue", schema=schema, database=database)


def rows_of(connection: psycopg.Connection) -> Rows:
    return lambda statement: connection.execute(statement.encode()).fetchall()


def _addressed(connection: psycopg.Connection) -> str | None:
    row = connection.execute("SELECT current_schema()").fetchone()
    return None if row is None or row[0] is None else str(row[0])


def _has_catalogue(connection: psycopg.Connection, schema: str) -> bool:
    row = connection.execute(SQL(IS_CATALOGUE).format(schema=Literal(schema))).fetchone()
    return row is not None and bool(row[0])


def _may_make_tables(connection: psycopg.Connection) -> bool:
    row = connection.execute("SELECT has_schema_privilege(current_schema(), 'CREATE')").fetchone()
    return row is not None and bool(row[0])


def _may_not(schema: str, role: str, database: str) -> ConfigurationError:
    named, to = (Identifier(each).as_string(None) for each in (schema, role))
    return ConfigurationError(
        f"RAG_CATALOG_SCHEMA: the role '{role}' may neither use nor make the schema '{schema}' of the catalogue in the "
        f"database '{database}'. Let the owner of the database run: CREATE SCHEMA IF NOT EXISTS {named}; "
        f"GRANT USAGE, CREATE ON SCHEMA {named} TO {to}",
        field="RAG_CATALOG_SCHEMA",
    )
