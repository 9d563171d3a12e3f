"""How much the collections hold, and the limits of what a caller's may hold.

A document counts the bytes of its text and of its metadata as they are stored, and of its vector: four for each
dimension. The sum of a collection is in its row, changed in the transaction that changes its documents, so nothing is
ever counted again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from schemas.errors import QuotaError
from schemas.names import matches_pattern
from wrapper.catalog.contract import Transaction
from wrapper.catalog.rows import IS_SHOWN, STANDS_FOR, Patterns, named, names_condition

T = TypeVar("T")


class Held(NamedTuple):
    """What is stored, in a collection or in several."""

    documents: int
    bytes: int


NOTHING = Held(0, 0)


@dataclass(frozen=True, slots=True)
class Quota:
    """The most that the collections within the patterns may hold together; None is unbounded."""

    within: Patterns
    documents: int | None = None
    bytes: int | None = None


def add(transaction: Transaction, collection_key: int, places: Sequence[int]) -> None:
    """Add the documents at these positions, which have just been stored, to the bytes of their collection."""
    _change(transaction, collection_key, places, "+")


def subtract(transaction: Transaction, collection_key: int, places: Sequence[int]) -> None:
    """Take the documents at these positions, which are about to be removed, from the bytes of their collection."""
    _change(transaction, collection_key, places, "-")


def within_quota(transaction: Transaction, name: str, quota: Quota | None, write: Callable[[Transaction], T]) -> T:
    """Do a write to the collection of that name, inside the caller's transaction.

    Raises QuotaError when it adds to the collection and leaves more than the quota allows.
    """
    if quota is None:
        return write(transaction)
    before = of_one(transaction, name)
    outcome = write(transaction)
    after = of_one(transaction, name)
    added = Held(after.documents - before.documents, after.bytes - before.bytes)
    all_held = held(transaction, quota.within)
    if not _counts(transaction, name, quota):  # the collection was named by an alias
        all_held = Held(all_held.documents + after.documents, all_held.bytes + after.bytes)
    for what, most, more, now in (
        ("documents", quota.documents, added.documents, all_held.documents),
        ("bytes", quota.bytes, added.bytes, all_held.bytes),
    ):
        if most is not None and more > 0 and now > most:
            left = max(0, most - (now - more))
            raise QuotaError(
                f"The key's collections may hold {most:,} {what} and hold {now - more:,}: there is room for {left:,} "
                f"more, and this write would add {more:,}",
                limit=what,
                allowed=most,
                held=now - more,
                left=left,
                added=more,
            )
    return outcome


def _counts(transaction: Transaction, name: str, quota: Quota) -> bool:
    """Return whether the collection of that name or alias is among those that the quota counts, or is gone."""
    collection = named(transaction, name)
    within = quota.within
    return collection is None or within is None or any(matches_pattern(collection.name, each) for each in within)


def held(transaction: Transaction, within: Patterns) -> Held:
    """Return what the collections within the patterns hold together."""
    mine = names_condition("name", within)
    row = transaction.row(
        "SELECT CAST(coalesce(sum(count), 0) AS BIGINT), CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM collections "
        f"WHERE {mine.text} AND {IS_SHOWN}",
        mine.parameters,
    )
    return NOTHING if row is None else Held(*row)


def of_one(transaction: Transaction, name: str) -> Held:
    """Return what the collection of that name or alias holds."""
    row = transaction.row(
        f"SELECT count, bytes FROM collections WHERE name = ? OR key = ({STANDS_FOR} alias = ?)", (name, name)
    )
    return NOTHING if row is None else Held(*row)


def _change(transaction: Transaction, collection_key: int, places: Sequence[int], sign: str) -> None:
    if not places:
        return
    dialect = transaction.dialect
    these = dialect.one_of("d.position", places)
    extras = f"coalesce({dialect.byte_length('d.extras')}, 0)"
    size = f"{dialect.byte_length('d.text')} + {dialect.byte_length('d.metadata')} + {extras} + length(e.vector)"
    transaction.run(
        f"UPDATE collections SET bytes = bytes {sign} (SELECT coalesce(sum({size}), 0) FROM documents d "
        f"JOIN embeddings e ON e.position = d.position WHERE {these.text}) WHERE key = ?",
        (*these.parameters, collection_key),
    )
