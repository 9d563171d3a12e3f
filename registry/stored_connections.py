"""The named connections that users made, in the catalogue's database."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

import orjson

from schemas.connections import Connection
from schemas.errors import ConflictError, NotFoundError
from schemas.shared_database import Database, Transaction

STEPS = (
    (
        """CREATE TABLE connections (
            id VARCHAR(64) PRIMARY KEY, type VARCHAR(16) NOT NULL, provider VARCHAR(128) NOT NULL,
            display_name {text}, config {text} NOT NULL
        )""",
    ),
    ("ALTER TABLE connections ADD COLUMN generation VARCHAR(32) NOT NULL DEFAULT ''",),
)
MAX_STORED = 200
"""The number of connections that users may make. Each is listed, and may be asked for its health."""
COLUMNS = "id, type, provider, display_name, config, generation"


class ConnectionNotFoundError(NotFoundError):
    code = "connection_not_found"

    def __init__(self, connection_id: str) -> None:
        super().__init__(f"Connection '{connection_id}' not found", connection=connection_id)


class StoredConnections:
    """The table of users' connections; configurations are kept as given, with placeholders unresolved."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.open_part("connections", STEPS)

    def all(self) -> list[Connection]:
        """Return all of them, sorted by id."""
        with self._database.read() as transaction:
            rows = transaction.rows(f"SELECT {COLUMNS} FROM connections ORDER BY id")
        return [_connection(*row) for row in rows]

    def find(self, connection_id: str) -> Connection | None:
        with self._database.read() as transaction:
            return _find(transaction, connection_id)

    def add(self, connection: Connection) -> Connection:
        """Store a connection and return it with its generation.

        Raises ConflictError when the id is taken or `MAX_STORED` are stored already.
        """

        kept = replace(connection, generation=uuid.uuid4().hex)

        def operation(transaction: Transaction) -> None:
            if _find(transaction, connection.id) is not None:
                raise taken(connection.id)
            count = transaction.row("SELECT count(*) FROM connections")
            if count is not None and count[0] >= MAX_STORED:
                raise ConflictError(
                    f"There are {count[0]} connections already, which is as many as there may be: delete one first",
                    code="too_many_connections",
                    limit=MAX_STORED,
                )
            _insert(transaction, kept)

        self._database.commit(operation)
        return kept

    def change(self, connection_id: str, change: Callable[[Connection], Connection]) -> Connection:
        """Replace a connection by what `change` returns for it.

        Raises ConnectionNotFoundError when there is none, and what `change` raises.
        """

        def operation(transaction: Transaction) -> Connection:
            before = _find(transaction, connection_id)
            if before is None:
                raise ConnectionNotFoundError(connection_id)
            after = replace(change(before), generation=uuid.uuid4().hex)
            transaction.run("DELETE FROM connections WHERE id = ?", (connection_id,))
            _insert(transaction, after)
            return after

        return self._database.commit(operation)

    def delete(self, connection_id: str) -> None:
        """Delete a connection. Raises ConnectionNotFoundError when there is none."""

        def operation(transaction: Transaction) -> None:
            if _find(transaction, connection_id) is None:
                raise ConnectionNotFoundError(connection_id)
            transaction.run("DELETE FROM connections WHERE id = ?", (connection_id,))

        self._database.commit(operation)


def taken(connection_id: str) -> ConflictError:
    return ConflictError(
        f"There is a connection '{connection_id}' already", code="connection_exists", connection=connection_id
    )


def _find(transaction: Transaction, connection_id: str) -> Connection | None:
    row = transaction.row(f"SELECT {COLUMNS} FROM connections WHERE id = ?", (connection_id,))
    return None if row is None else _connection(*row)


def _insert(transaction: Transaction, connection: Connection) -> None:
    transaction.run(
        f"INSERT INTO connections ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
        (
            connection.id,
            connection.kind,
            connection.provider,
            connection.display_name,
            orjson.dumps(connection.config).decode(),
            connection.generation,
        ),
    )


def _connection(
    connection_id: str, kind: str, provider: str, display_name: str | None, config: str, generation: str
) -> Connection:
    return Connection(connection_id, kind, provider, orjson.loads(config), display_name, generation=generation)
