"""Outcomes of writes that carried an `Idempotency-Key`, kept in the transaction of the write itself.

A row holds `{"outcome": …, "version": …}`: the fields of the outcome by name, which spelt again are the first answer.
Rows of releases that kept the answer itself hold `[answer, version]`, and are answered as they are until they expire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from schemas.errors import ConflictError
from schemas.storage.outcomes import EarlierAnswer
from wrapper.catalog.contract import Transaction

KEPT_SECONDS = 24 * 3600

Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class Kept(Generic[Outcome]):
    """The outcome of the first request with a key.

    `outbox_id` is the entry that a repeat waits for too, and `version` the state in which the write left its
    collection; both may be None.
    """

    outcome: Outcome | EarlierAnswer
    outbox_id: int | None = None
    version: str | None = None


def exists(transaction: Transaction, key: str) -> bool:
    """Return whether any request with this key was done."""
    return transaction.row("SELECT 1 FROM idempotency_keys WHERE key = ?", (key,)) is not None


def find(transaction: Transaction, key: str, request_digest: str, kind: Callable[..., Outcome]) -> Kept[Outcome] | None:
    """Return the outcome of the first request with this key, made by `kind` of its fields; None when there was none.

    Raises ConflictError when the key came with another request.
    """
    row = transaction.row("SELECT request_digest, outcome, outbox_id FROM idempotency_keys WHERE key = ?", (key,))
    if row is None:
        return None
    if row[0] != request_digest:
        raise ConflictError(
            "The Idempotency-Key was used for another request", code="idempotency_key_reused", field="Idempotency-Key"
        )
    held: dict[str, Any] | list[Any] = orjson.loads(row[1])
    if isinstance(held, list):
        answer, version = held
        return Kept(EarlierAnswer(answer), row[2], version)
    return Kept(kind(**held["outcome"]), row[2], held["version"])


def keep(
    transaction: Transaction,
    key: str,
    request_digest: str,
    kept: Kept[Any],
    now: float,
    collection_key: int | None,
) -> None:
    """Keep an outcome, a dataclass, as long as its collection lives.

    Those older than `KEPT_SECONDS` are forgotten.
    """
    transaction.run("DELETE FROM idempotency_keys WHERE created_at_seconds < ?", (int(now) - KEPT_SECONDS,))
    held = orjson.dumps({"outcome": kept.outcome, "version": kept.version})
    transaction.run(
        "INSERT INTO idempotency_keys (key, collection_key, request_digest, outbox_id, outcome, created_at_seconds) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (key, collection_key, request_digest, kept.outbox_id, held, int(now)),
    )


def forget(transaction: Transaction, collection_key: int) -> None:
    """Forget the outcomes of a deleted collection: they do not hold for a later one of the same name."""
    transaction.run("DELETE FROM idempotency_keys WHERE collection_key = ?", (collection_key,))


def forget_names(transaction: Transaction, names: Set[str]) -> int:
    """Leave these ids and names out of all outcomes, and return how many outcomes had any.

    What is listed under one of them is left out of the list, and the outcome stays, so that a repeat of the write still
    does nothing. An outcome that has one elsewhere is forgotten.
    """
    changed = 0
    for key, stored in transaction.rows("SELECT key, outcome FROM idempotency_keys"):
        held = orjson.loads(stored)
        if names.isdisjoint(_texts(held)):
            continue
        changed += 1
        kept = _without(held, names) if isinstance(held, dict) else held
        if names.isdisjoint(_texts(kept)):
            transaction.run("UPDATE idempotency_keys SET outcome = ? WHERE key = ?", (orjson.dumps(kept), key))
        else:
            transaction.run("DELETE FROM idempotency_keys WHERE key = ?", (key,))
    return changed


def _without(value: Any, names: Set[str]) -> Any:
    """Return a value without the items of its lists that have one of the names."""
    if isinstance(value, dict):
        return {field: _without(each, names) for field, each in value.items()}
    if isinstance(value, list):
        return [each for each in value if names.isdisjoint(_texts(each))]
    return value


def _texts(value: Any) -> Iterator[str]:
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)
