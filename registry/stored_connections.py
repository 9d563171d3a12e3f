"""The named connections that users made, in the catalogue's database."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

import orjson

from schemas.access.owners import AUDIENCE_COLUMN, OWNER_COLUMN, Ownership
from schemas.connections import Connection
from schemas.errors import ConflictError, NotFoundError
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure import Target

STEPS = (
    (
        """CREATE TABLE connections (
            id VARCHAR(64) PRIMARY KEY, type VARCHAR(16) NOT NULL, provider VARCHAR(128) NOT NULL,
            display_name {text}, config {text} NOT NULL
        )""",
    ),
    ("ALTER TABLE connections ADD COLUMN generation VARCHAR(32) NOT NULL DEFAULT ''",),
    ("ALTER TABLE connections ADD COLUMN sealed {text} NOT NULL DEFAULT '{{}}'",),
    (
        f"ALTER TABLE connections ADD COLUMN {OWNER_COLUMN}",
        f"ALTER TABLE connections ADD COLUMN {AUDIENCE_COLUMN}",
    ),
    (
        """CREATE TABLE connection_looks (
            id VARCHAR(64) PRIMARY KEY, generation VARCHAR(32) NOT NULL, looks {text} NOT NULL
        )""",
    ),
)
MAX_STORED = 200
"""The number of connections that each owner may make. Each is listed, and may be asked for its health."""
COLUMNS = "id, type, provider, display_name, config, generation, sealed, owner, audience"


class ConnectionNotFoundError(NotFoundError):
    code = "connection_not_found"

    def __init__(self, connection_id: str) -> None:
        super().__init__(f"Connection '{connection_id}' not found", connection=connection_id)


class StoredConnections:
    """The table of users' connections, whosever they are; configurations are kept as given, with placeholders
    unresolved.

    Secrets that people typed are in a column of their own, sealed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        database.open_part("connections", STEPS, Place("connections", "removed", self.erase))

    def all(self) -> list[Connection]:
        """Return all of them, sorted by id."""
        with self._database.read() as transaction:
            rows = transaction.rows(f"SELECT {COLUMNS} FROM connections ORDER BY id")
        return [_connection(*row) for row in rows]

    def find(self, connection_id: str) -> Connection | None:
        with self._database.read() as transaction:
            return _find(transaction, connection_id)

    def add(
        self, connection: Connection, seal: Callable[[Connection], Connection] = lambda connection: connection
    ) -> Connection:
        """Store what `seal` returns for a connection, and return it with its generation.

        Like `change`, `seal` runs while nobody else can write. Raises ConflictError when the id is taken or
        its owner has `MAX_STORED` already, DiskFloorError, and what `seal` raises.
        """

        def operation(transaction: Transaction) -> Connection:
            if _find(transaction, connection.id) is not None:
                raise taken(connection.id)
            count = transaction.row("SELECT count(*) FROM connections WHERE owner = ?", (connection.of.owner,))
            if count is not None and count[0] >= MAX_STORED:
                raise ConflictError(
                    f"You have {count[0]} connections already, which is as many as one may have: delete one first",
                    code="too_many_connections",
                    limit=MAX_STORED,
                )
            kept = replace(seal(connection), generation=uuid.uuid4().hex)
            _insert(transaction, kept)
            return kept

        return self._database.commit(operation)

    def change(self, connection_id: str, change: Callable[[Connection], Connection]) -> Connection:
        """Replace a connection by what `change` returns for it.

        Raises ConnectionNotFoundError when there is none, DiskFloorError, and what `change` raises.
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

    def seal_again(self, seal: Callable[[Connection], dict[str, str]]) -> int:
        """Replace the sealed secrets of every connection by what `seal` returns, in one transaction.

        Returns the number of connections that have some. Nothing else about them changes, so they stay open.
        """

        def operation(transaction: Transaction) -> int:
            rows = transaction.rows(f"SELECT {COLUMNS} FROM connections WHERE sealed <> '{{}}' ORDER BY id")
            for connection in (_connection(*row) for row in rows):
                values = (orjson.dumps(seal(connection)).decode(), connection.id)
                transaction.run("UPDATE connections SET sealed = ? WHERE id = ?", values)
            return len(rows)

        return self._database.freely.commit(operation)

    def erase(self, target: Target) -> int:
        """Delete what an erased user has made, and return the number of connections. Workers close them when they next
        look."""
        sql = "SELECT id FROM connections WHERE owner = ?"

        def operation(transaction: Transaction) -> int:
            ids = transaction.rows(sql, (target.owner,))
            transaction.run(f"DELETE FROM connection_looks WHERE id IN ({sql})", (target.owner,))
            transaction.run("DELETE FROM connections WHERE owner = ?", (target.owner,))
            return len(ids)

        return self._database.freely.commit(operation)

    def delete(self, connection_id: str, check: Callable[[Connection], None]) -> None:
        """Delete a connection. Raises ConnectionNotFoundError when there is none, and what `check` raises for it."""

        def operation(transaction: Transaction) -> None:
            found = _find(transaction, connection_id)
            if found is None:
                raise ConnectionNotFoundError(connection_id)
            check(found)
            transaction.run("DELETE FROM connection_looks WHERE id = ?", (connection_id,))
            transaction.run("DELETE FROM connections WHERE id = ?", (connection_id,))

        self._database.freely.commit(operation)


def taken(connection_id: str) -> ConflictError:
    return ConflictError(
        f"There is a connection '{connection_id}' already", code="connection_exists", connection=connection_id
    )


def _find(transaction: Transaction, connection_id: str) -> Connection | None:
    row = transaction.row(f"SELECT {COLUMNS} FROM connections WHERE id = ?", (connection_id,))
    return None if row is None else _connection(*row)


def _insert(transaction: Transaction, connection: Connection) -> None:
    transaction.run(
        f"INSERT INTO connections ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            connection.id,
            connection.kind,
            connection.provider,
            connection.display_name,
            orjson.dumps(connection.config).decode(),
            connection.generation,
            orjson.dumps(connection.sealed).decode(),
            connection.of.owner,
            connection.of.audience,
        ),
    )


def _connection(
    connection_id: str,
    kind: str,
    provider: str,
    display_name: str | None,
    config: str,
    generation: str,
    sealed: str,
    owner: str,
    audience: str,
) -> Connection:
    return Connection(
        connection_id,
        kind,
        provider,
        orjson.loads(config),
        display_name,
        generation=generation,
        sealed=orjson.loads(sealed),
        of=Ownership(owner, audience),
    )
