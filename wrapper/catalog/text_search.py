"""The text search: the documents of a collection ranked by the words of a query."""

from __future__ import annotations

from schemas.records import Collection, TextMatch
from schemas.where import EVERYTHING, Where
from wrapper.catalog.contract import Transaction
from wrapper.catalog.held_documents import HeldDocuments


def text_search(
    transaction: Transaction,
    collection: Collection,
    query: str,
    where: Where,
    held: HeldDocuments,
    *,
    limit: int,
    seen: Where = EVERYTHING,
) -> tuple[list[TextMatch], int]:
    """Return the best `limit` matches, and how many documents match in all.

    A document matches when it has any word of the query. `limit` is at least 1. The answer is as if
    the collection had only the documents that match `seen`.
    """
    ranked, total = transaction.dialect.text_index.best(transaction, collection, query, where, limit=limit, seen=seen)
    documents = held.at(transaction, collection, [each.position for each in ranked])
    return [TextMatch(documents[each.position], each.score) for each in ranked], total
