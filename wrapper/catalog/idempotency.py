"""Outcomes of writes that carried an `Idempotency-Key`, kept in the transaction of the write itself.

A row holds `{"outcome": …, "version": …}`: the fields of the outcome by name, which spelt again are the first answer.
Rows of releases that kept the answer itself hold `[answer, version]`, and are answered as they are until they expire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson
import structlog

from schemas.errors import ConflictError
from schemas.shared_database import of_fields
from schemas.storage.erasure import Target
from schemas.storage.outcomes import EarlierAnswer
from wrapper.catalog.contract import Transaction

log = structlog.get_logger(__name__)

KEPT_SECONDS = 24 * 3600
LOOKED_UP_AT_ONCE = 500
_IDS = ("id", "document_id", "documentId")
_SENTENCES = frozenset({"warnings"})
_STORED = frozenset({"ids", "chunk_ids"})
"""Lists of the ids of stored documents."""
_LISTS = frozenset({"errors", "failures", "files"}) | _STORED | _SENTENCES
_NAMES = ("id", "name", "filename")
"""The fields of outcomes, and of what they list, that tell of documents."""
_OF_COLLECTION = "metric"
"""A field that only outcomes of collections have: their id is no document's."""

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
    """Return the outcome of the first request with this key, made by `kind` of its fields; None when there was none, or
    another release kept one without a field that this one needs.

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
    try:
        return Kept(of_fields(kind, held["outcome"]), row[2], held["version"])
    except (KeyError, TypeError, ValueError) as error:
        log.warning("the outcome of a repeated request cannot be read, so it is done again", reason=str(error))
        return None


def keep(
    transaction: Transaction,
    key: str,
    request_digest: str,
    kept: Kept[Any],
    now: float,
    collection_key: int | None,
    *,
    names_documents: bool = True,
) -> None:
    """Keep an outcome, a dataclass, as long as its collection lives; without `names_documents`, what it tells of single
    documents is left out.

    Those older than `KEPT_SECONDS` are forgotten, and so is one of this key that could not be read.
    """
    transaction.run("DELETE FROM idempotency_keys WHERE created_at_seconds < ?", (int(now) - KEPT_SECONDS,))
    transaction.run("DELETE FROM idempotency_keys WHERE key = ?", (key,))
    outcome = kept.outcome if names_documents else _naming_none(orjson.loads(orjson.dumps(kept.outcome)))
    held = orjson.dumps({"outcome": outcome, "version": kept.version})
    transaction.run(
        "INSERT INTO idempotency_keys (key, collection_key, request_digest, outbox_id, outcome, created_at_seconds) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (key, collection_key, request_digest, kept.outbox_id, held, int(now)),
    )


def forget(transaction: Transaction, collection_key: int) -> None:
    """Forget the outcomes of a deleted collection: they do not hold for a later one of the same name."""
    transaction.run("DELETE FROM idempotency_keys WHERE collection_key = ?", (collection_key,))


def leave_out(transaction: Transaction, target: Target, collection_key: int | None) -> int:
    """Leave what is erased out of the outcomes of writes to its collection, and return how many outcomes had any.

    So are the ids of all pieces and documents in lists that the collection has no more: nothing tells whose pieces
    these were. An upload's outcome belongs to no collection: it goes by that of its job, and by its job when that is
    erased. All outcomes stay, so that a repeat of the write still does nothing.
    """
    changed = 0
    rows = transaction.rows(
        "SELECT key, outcome, collection_key FROM idempotency_keys WHERE collection_key = ? OR collection_key IS NULL",
        (collection_key,),
    )
    all_held = [(key, orjson.loads(stored), own) for key, stored, own in rows]
    gone = _gone(transaction, collection_key, (held[_place_in(held)] for _, held, own in all_held if own is not None))
    for key, held, own in all_held:
        outcome = held[_place_in(held)]
        kept = _without(outcome, target, gone) if own is not None else _upload_without(outcome, target)
        if kept != outcome:
            changed += 1
            held[_place_in(held)] = kept
            transaction.run("UPDATE idempotency_keys SET outcome = ? WHERE key = ?", (orjson.dumps(held), key))
    return changed


def _place_in(held: dict[str, Any] | list[Any]) -> Any:
    return 0 if isinstance(held, list) else "outcome"


def _gone(transaction: Transaction, collection_key: int | None, outcomes: Iterable[dict[str, Any]]) -> set[str]:
    """Return those of the ids in outcomes that the collection has no document of."""
    gone = {each for outcome in outcomes for field in _STORED for each in outcome.get(field) or ()}
    listed = sorted(gone)
    for start in range(0, len(listed), LOOKED_UP_AT_ONCE):
        wanted = transaction.dialect.with_ids(listed[start : start + LOOKED_UP_AT_ONCE])
        stored = transaction.rows(
            f"SELECT d.id FROM documents d WHERE d.collection_key = ? AND {wanted.text}",
            (collection_key, *wanted.parameters),
        )
        gone.difference_update(row[0] for row in stored)
    return gone


def _naming_none(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return an outcome without what it tells of single documents."""
    kept = {field: [] if field in _LISTS else value for field, value in outcome.items()}
    if _OF_COLLECTION not in outcome:
        kept |= {field: "" for field in _IDS if field in outcome}
    return kept


def _without(outcome: dict[str, Any], target: Target, gone: Set[str]) -> dict[str, Any]:
    """Return the outcome of a write of documents without what it tells of those erased, and without ids of those
    gone."""
    names = target.ids | target.document_ids | target.sources | target.file_names
    kept = {
        field: [each for each in value if each not in gone] if field in _STORED else _unlisted(field, value, names)
        for field, value in outcome.items()
    }
    if _OF_COLLECTION not in outcome:
        kept |= {field: "" for field in _IDS if outcome.get(field) in names}
    return kept


def _upload_without(outcome: dict[str, Any], target: Target) -> dict[str, Any]:
    """Return the outcome of an upload without the files erased; any other as it is."""
    if "files" not in outcome:
        return outcome
    if outcome.get("job_id") in target.job_ids:
        return {**outcome, "files": []}
    # Earlier releases did not note the collection.
    if target.collection is None or outcome.get("collection", "") not in ("", target.collection):
        return outcome
    names = target.file_names | target.sources | {each.rpartition("/")[2] for each in target.sources}
    return {**outcome, "files": _unlisted("files", outcome["files"], names)}


def _unlisted(field: str, value: Any, names: Set[str]) -> Any:
    """Return the value of a field; a list that tells of documents without those of these names."""
    if field not in _LISTS:
        return value
    if field in _SENTENCES:
        return [each for each in value if not _mentions(each, names)]
    return [each for each in value if not _is_of(each, names)]


def _is_of(item: Any, names: Set[str]) -> bool:
    if isinstance(item, dict):
        return any(item.get(name) in names for name in _NAMES) or _mentions(item.get("message") or "", names)
    return item in names


def _mentions(sentence: str, names: Set[str]) -> bool:
    return any(name and name in sentence for name in names)
