"""What services were found to take in one call, in the catalogue's database, so that all workers and later starts
know."""

from __future__ import annotations

from dataclasses import asdict

import structlog

from providers.outbound.call_sizes import CallSize
from schemas.errors import RagError
from schemas.shared_database import Database, Transaction
from schemas.storage.small_tables import Table, having

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
SIZES = Table("call_sizes", CallSize, order="learnt_at DESC, service")


class StoredCallSizes:
    """The table of what services take, by a digest of each. Safe for several threads and processes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.open_part("call sizes", STEPS)

    def find(self, service: str) -> CallSize | None:
        try:
            with self._database.read() as transaction:
                return SIZES.first(transaction, having(service=service))
        except RagError as error:
            log.warning("what a service takes in one call is not known", reason=error.message)
            return None

    def keep(self, service: str, size: CallSize | None) -> None:
        def operation(transaction: Transaction) -> None:
            SIZES.delete(transaction, having(service=service))
            if size is not None:
                SIZES.keep_first(transaction, MAX_SERVICES - 1, key="service")
                SIZES.insert(transaction, service=service, **asdict(size) | {"learnt_at": int(size.learnt_at)})

        try:
            self._database.freely.commit_quickly(operation)
        except RagError as error:
            log.warning("what a service takes in one call was not kept", reason=error.message)
