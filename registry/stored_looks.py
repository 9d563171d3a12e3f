"""What looks at connections have found lately, in the catalogue's database, so that all workers tell the same."""

from __future__ import annotations

from collections.abc import Iterable

import orjson
import structlog

from schemas.connections import Connection, HealthReport, Look
from schemas.errors import RagError
from schemas.shared_database import Database, Transaction

log = structlog.get_logger(__name__)

KEPT = 40
"""The number of looks at a connection that are kept."""


class StoredLooks:
    """The last looks at each connection. The history of one that is changed over the API begins anew.

    The table is opened by `StoredConnections`, which also forgets the looks at what is deleted.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, connection: Connection, report: HealthReport) -> None:
        """Keep what a look has found. Nothing is raised: a report does not fail because it cannot be kept."""
        took_ms = report.details.get("response_time_ms")
        look = [report.timestamp, report.status, took_ms if isinstance(took_ms, int | float) else None]

        def operation(transaction: Transaction) -> None:
            if connection.origin == "stored" and not _is_current(transaction, connection):
                return
            found = transaction.row(
                "SELECT looks FROM connection_looks WHERE id = ? AND generation = ?",
                (connection.id, connection.generation),
            )
            kept = [*(orjson.loads(found[0]) if found else ()), look][-KEPT:]
            transaction.run("DELETE FROM connection_looks WHERE id = ?", (connection.id,))
            values = (connection.id, connection.generation, orjson.dumps(kept).decode())
            transaction.run("INSERT INTO connection_looks (id, generation, looks) VALUES (?, ?, ?)", values)

        try:
            self._database.freely.commit_quickly(operation)
        except RagError as error:
            log.warning("a look at a connection was not kept", connection=connection.id, reason=error.message)

    def of(self, connections: Iterable[Connection]) -> dict[str, list[Look]]:
        """Return the looks at each of the connections by its id, oldest first."""
        with self._database.read() as transaction:
            rows = transaction.rows("SELECT id, generation, looks FROM connection_looks")
        found = {(connection_id, generation): looks for connection_id, generation, looks in rows}
        return {
            each.id: [Look(*look[:3]) for look in orjson.loads(found.get((each.id, each.generation), "[]"))]
            for each in connections
        }


def _is_current(transaction: Transaction, connection: Connection) -> bool:
    found = transaction.row("SELECT generation FROM connections WHERE id = ?", (connection.id,))
    return found == (connection.generation,)
