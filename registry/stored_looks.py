"""What looks at connections have found lately, in the catalogue's database, so that all workers tell the same."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from registry.stored_connections import CONNECTIONS, LOOKS
from schemas.connections import Connection, HealthReport, Look
from schemas.errors import RagError
from schemas.shared_database import Database, Transaction
from schemas.storage.small_tables import having

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

        state = having(id=connection.id, generation=connection.generation)

        def operation(transaction: Transaction) -> None:
            if connection.origin == "stored" and not CONNECTIONS.count(transaction, state):
                return
            _, before = LOOKS.first(transaction, state) or (None, [])
            kept = [*before, look][-KEPT:]
            LOOKS.put(transaction, {"id": connection.id}, generation=connection.generation, looks=kept)

        try:
            self._database.freely.commit_quickly(operation)
        except RagError as error:
            log.warning("a look at a connection was not kept", connection=connection.id, reason=error.message)

    def of(self, connections: Iterable[Connection]) -> dict[str, list[Look]]:
        """Return the looks at each of the connections by its id, oldest first."""
        with self._database.read() as transaction:
            found = dict(LOOKS.rows(transaction))
        return {each.id: [Look(*look[:3]) for look in found.get(each.version, ())] for each in connections}
