"""Answers of writes that carried an `Idempotency-Key`, kept in the transaction of the write itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from schemas.errors import ConflictError
from wrapper.catalog.transaction import Transaction

KEPT_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    answer: dict[str, Any]
    outbox_id: int | None
    etag: str | None


def exists(transaction: Transaction, key: str) -> bool:
    """Whether this key has an answer, to whatever request."""
    return transaction.row("SELECT 1 FROM idempotency_keys WHERE key = ?", (key,)) is not None


def find(transaction: Transaction, key: str, request_digest: str) -> KeptAnswer | None:
    """The first answer to this key. Raises ConflictError when the key came with another request."""
    row = transaction.row("SELECT request_digest, answer, outbox_id FROM idempotency_keys WHERE key = ?", (key,))
    if row is None:
        return None
    if row[0] != request_digest:
        raise ConflictError(
            "The Idempotency-Key was used for another request", code="idempotency_key_reused", field="Idempotency-Key"
        )
    answer, etag = orjson.loads(row[1])
    return KeptAnswer(answer, row[2], etag)


def keep(
    transaction: Transaction,
    key: str,
    request_digest: str,
    kept: KeptAnswer,
    now: float,
    collection_key: int | None,
) -> None:
    """Keep the answer as long as its collection lives, and forget those older than `KEPT_SECONDS`."""
    transaction.run("DELETE FROM idempotency_keys WHERE created_at_seconds < ?", (int(now) - KEPT_SECONDS,))
    transaction.run(
        "INSERT INTO idempotency_keys (key, collection_key, request_digest, outbox_id, answer, created_at_seconds) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (key, collection_key, request_digest, kept.outbox_id, orjson.dumps([kept.answer, kept.etag]), int(now)),
    )


def forget(transaction: Transaction, collection_key: int) -> None:
    """A deleted collection's answers are no answers for a later one of the same name."""
    transaction.run("DELETE FROM idempotency_keys WHERE collection_key = ?", (collection_key,))
