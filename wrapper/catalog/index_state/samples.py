"""Documents by which an index is judged: whether it finds them, and what is near them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from schemas.records import Collection, Document
from wrapper.catalog.contract import Transaction
from wrapper.catalog.reads import in_insertion_order


def spread(transaction: Transaction, collection: Collection, number: int) -> list[Document]:
    """Return the newest document and others spread over the collection, with their embeddings."""
    ends = _ends(transaction, collection)
    if ends is None:
        return []
    first, last = ends
    places = [last - (last - first) * step // max(1, number - 1) for step in range(number)]
    return _at_or_after(transaction, collection, places)


def chosen(transaction: Transaction, collection: Collection, number: int, chance: random.Random) -> list[Document]:
    """Return at most `number` documents that chance chooses from the whole collection, with their embeddings."""
    ends = _ends(transaction, collection)
    if ends is None:
        return []
    places = [chance.randint(*ends) for _ in range(number)]
    return _at_or_after(transaction, collection, places)


def _ends(transaction: Transaction, collection: Collection) -> tuple[int, int] | None:
    ends = transaction.row(
        "SELECT min(position), max(position) FROM documents WHERE collection_key = ?", (collection.key,)
    )
    return None if ends is None or ends[0] is None else (ends[0], ends[1])


def _at_or_after(transaction: Transaction, collection: Collection, places: Sequence[int]) -> list[Document]:
    found = {
        document.id: document
        for place in places
        for document in in_insertion_order(transaction, collection, after=place - 1, limit=1)
    }
    return list(found.values())
