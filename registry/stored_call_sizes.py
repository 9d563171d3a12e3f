"""What services were found to take in one call, in the catalogue's database, so that all workers and later starts
know."""

from __future__ import annotations

import structlog

from providers.outbound.call_sizes import CallSize
from schemas.errors import RagError
from schemas.shared_database import Database, Transaction

log = structlog.get_logger(__name__)

STEPS = (
    (
        """CREATE TABLE call_sizes (
            service VARCHAR(64) PRIMARY KEY, texts BIGINT NOT NULL, bytes BIGINT NOT NULL, learnt_at BIGINT NOT NULL
        )""",
    ),
    ("ALTER TABLE call_sizes ADD COLUMN is_plain BIGINT NOT NULL DEFAULT 0",),
)
MAX_SERVICES = 1_000
"""The number of services that are known, those learnt last: a test of a connection may ask any."""


class StoredCallSizes:
    """The table of what services take, by a digest of each. Safe for several threads and processes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.open_part("call sizes", STEPS)

    def find(self, service: str) -> CallSize | None:
        try:
            with self._database.read() as transaction:
                selected = "SELECT texts, bytes, learnt_at, is_plain FROM call_sizes WHERE service = ?"
                row = transaction.row(selected, (service,))
        except RagError as error:
            log.warning("what a service takes in one call is not known", reason=error.message)
            return None
        if row is None:
            return None
        texts, octets, learnt_at, is_plain = map(int, row)
        return CallSize(texts, octets, learnt_at, bool(is_plain))

    def keep(self, service: str, size: CallSize | None) -> None:
        def operation(transaction: Transaction) -> None:
            transaction.run("DELETE FROM call_sizes WHERE service = ?", (service,))
            if size is None:
                return
            transaction.run(
                "DELETE FROM call_sizes WHERE service IN"
                " (SELECT service FROM call_sizes ORDER BY learnt_at DESC, service LIMIT ? OFFSET ?)",
                (MAX_SERVICES, MAX_SERVICES - 1),
            )
            values = (service, size.texts, size.bytes, int(size.learnt_at), int(size.is_plain))
            names = "service, texts, bytes, learnt_at, is_plain"
            transaction.run(f"INSERT INTO call_sizes ({names}) VALUES (?, ?, ?, ?, ?)", values)

        try:
            self._database.freely.commit_quickly(operation)
        except RagError as error:
            log.warning("what a service takes in one call was not kept", reason=error.message)
