"""The named connections that users made, in the catalogue's database."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from schemas.access.owners import AUDIENCE_COLUMN, OWNER_COLUMN, Ownership
from schemas.connections import Connection
from schemas.errors import ConflictError, NotFoundError
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure import Target
from schemas.storage.small_tables import Condition, Table, having

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
    ("CREATE TABLE chosen_connections (type VARCHAR(16) PRIMARY KEY, id VARCHAR(64) NOT NULL)",),
)
CHAT_TYPE = "llm"
MAX_STORED = 200
"""The number of connections that each owner may make. Each is listed, and may be asked for its health."""


def _connection(
    id: str,
    type: str,
    provider: str,
    display_name: str | None,
    config: dict[str, Any],
    generation: str,
    sealed: dict[str, str],
    owner: str,
    audience: str,
) -> Connection:
    of = Ownership(owner, audience)
    return Connection(id, type, provider, config, display_name, generation=generation, sealed=sealed, of=of)


def _looks(id: str, generation: str, looks: list[list[Any]]) -> tuple[tuple[str, str], list[list[Any]]]:
    return (id, generation), looks


def _chosen(type: str, id: str) -> tuple[str, str]:
    return type, id


CONNECTIONS = Table("connections", _connection, order="id", json=("config", "sealed"))
LOOKS = Table("connection_looks", _looks, order="id", json=("looks",))
CHOSEN = Table("chosen_connections", _chosen, order="type")


class ConnectionNotFoundError(NotFoundError):
    code = "connection_not_found"

    def __init__(self, connection_id: str, field: str | None = None) -> None:
        super().__init__(f"Connection '{connection_id}' not found", connection=connection_id, field=field)


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
            return CONNECTIONS.rows(transaction)

    def find(self, connection_id: str) -> Connection | None:
        with self._database.read() as transaction:
            return _find(transaction, connection_id)

    def marked(self) -> tuple[str, bool]:
        """Return the id that is marked as the chat model, "" for none, and whether such a connection is stored."""
        with self._database.read() as transaction:
            row = transaction.row(
                "SELECT chosen.id, stored.id FROM chosen_connections chosen "
                "LEFT JOIN connections stored ON stored.id = chosen.id AND stored.type = chosen.type "
                "WHERE chosen.type = ?",
                (CHAT_TYPE,),
            )
        return ("", False) if row is None else (row[0], row[1] is not None)

    def mark(self, connection_id: str, is_marked: bool) -> None:
        """Mark an id as the chat model instead of any other, or take its mark away."""
        self._database.commit(lambda transaction: _mark(transaction, connection_id, is_marked))

    def add(
        self,
        connection: Connection,
        seal: Callable[[Connection], Connection] = lambda connection: connection,
        *,
        is_marked: bool = False,
    ) -> Connection:
        """Store what `seal` returns for a connection, and return it with its generation. `is_marked` makes it the
        chat model.

        Like `change`, `seal` runs while nobody else can write. Raises ConflictError when the id is taken or
        its owner has `MAX_STORED` already, DiskFloorError, and what `seal` raises.
        """

        def operation(transaction: Transaction) -> Connection:
            if _find(transaction, connection.id) is not None:
                raise taken(connection.id)
            count = CONNECTIONS.count(transaction, having(owner=connection.of.owner))
            if count >= MAX_STORED:
                raise ConflictError(
                    f"You have {count} connections already, which is as many as one may have: delete one first",
                    code="too_many_connections",
                    limit=MAX_STORED,
                )
            kept = replace(seal(connection), generation=uuid.uuid4().hex)
            _mark(transaction, connection.id, is_marked)  # a mark may be left of one that is declared no more
            _insert(transaction, kept)
            return kept

        return self._database.commit(operation)

    def change(
        self, connection_id: str, change: Callable[[Connection], Connection], is_marked: bool | None = None
    ) -> Connection:
        """Replace a connection by what `change` returns for it, and mark it as the chat model or take that away when
        `is_marked` says so. What is of another type then has no mark.

        Raises ConnectionNotFoundError when there is none, DiskFloorError, and what `change` raises.
        """

        def operation(transaction: Transaction) -> Connection:
            after = replace(change(_one(transaction, connection_id)), generation=uuid.uuid4().hex)
            CONNECTIONS.delete(transaction, having(id=connection_id))
            _insert(transaction, after)
            if is_marked is not None or after.kind != CHAT_TYPE:
                _mark(transaction, connection_id, is_marked is True)
            return after

        return self._database.commit(operation)

    def seal_again(self, seal: Callable[[Connection], dict[str, str]]) -> int:
        """Replace the sealed secrets of every connection by what `seal` returns, in one transaction.

        Returns the number of connections that have some. Nothing else about them changes, so they stay open.
        """

        def operation(transaction: Transaction) -> int:
            rows = CONNECTIONS.rows(transaction, Condition("sealed <> '{}'"))
            for connection in rows:
                CONNECTIONS.update(transaction, having(id=connection.id), sealed=seal(connection))
            return len(rows)

        return self._database.freely.commit(operation)

    def erase(self, target: Target) -> int:
        """Delete what an erased user has made, and return the number of connections. Workers close them when they next
        look."""

        def operation(transaction: Transaction) -> int:
            ids = tuple(each.id for each in CONNECTIONS.rows(transaction, having(owner=target.owner)))
            for table in (LOOKS, CHOSEN):
                table.delete(transaction, having(id=ids))
            return CONNECTIONS.remove(transaction, having(id=ids))

        return self._database.freely.commit(operation)

    def delete(self, connection_id: str, check: Callable[[Connection], None]) -> None:
        """Delete a connection. Raises ConnectionNotFoundError when there is none, and what `check` raises for it."""

        def operation(transaction: Transaction) -> None:
            check(_one(transaction, connection_id))
            for table in (LOOKS, CHOSEN, CONNECTIONS):
                table.delete(transaction, having(id=connection_id))

        self._database.freely.commit(operation)


def taken(connection_id: str) -> ConflictError:
    return ConflictError(
        f"There is a connection '{connection_id}' already", code="connection_exists", connection=connection_id
    )


def _mark(transaction: Transaction, connection_id: str, is_marked: bool) -> None:
    CHOSEN.delete(transaction, having(type=CHAT_TYPE) if is_marked else having(type=CHAT_TYPE, id=connection_id))
    if is_marked:
        CHOSEN.insert(transaction, type=CHAT_TYPE, id=connection_id)


def _find(transaction: Transaction, connection_id: str) -> Connection | None:
    return CONNECTIONS.first(transaction, having(id=connection_id))


def _one(transaction: Transaction, connection_id: str) -> Connection:
    found = _find(transaction, connection_id)
    if found is None:
        raise ConnectionNotFoundError(connection_id)
    return found


def _insert(transaction: Transaction, connection: Connection) -> None:
    CONNECTIONS.insert(
        transaction,
        id=connection.id,
        type=connection.kind,
        provider=connection.provider,
        display_name=connection.display_name,
        config=connection.config,
        generation=connection.generation,
        sealed=connection.sealed,
        owner=connection.of.owner,
        audience=connection.of.audience,
    )
