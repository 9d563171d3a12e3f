"""Gather: the documents that a caller names, each with its whole group."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.errors import InvalidInputError
from schemas.records import Collection, Gathered, GatherSpec
from schemas.where import EVERYTHING, Where, all_of
from wrapper.catalog import grouping, reads
from wrapper.catalog.contract import Transaction

MOST_GATHERED = 1_000
"""The most documents that a filter may bring into a gather."""


def gather(
    transaction: Transaction,
    collection: Collection,
    spec: GatherSpec,
    ids: Sequence[str] | None,
    where: Where | None,
    seen: Where,
) -> Gathered:
    """Return the groups of documents given by ids, or without ids by a filter, as if there were only the documents that
    match `seen`.

    Raises InvalidInputError when the filter matches more than `MOST_GATHERED`.
    """
    missing: tuple[str, ...] = ()
    if ids is not None:
        found = reads.by_ids(transaction, collection, ids, where=seen)
        hits = [found[each] for each in dict.fromkeys(ids) if each in found]
        missing = tuple(each for each in dict.fromkeys(ids) if each not in found)
    else:
        page = reads.page(transaction, collection, all_of(seen, where or EVERYTHING), limit=MOST_GATHERED)
        if page.total > MOST_GATHERED:
            raise InvalidInputError(
                f"where matches {page.total} documents, and at most {MOST_GATHERED} are gathered: narrow it",
                code="too_many_matches",
                field="where",
                limit=MOST_GATHERED,
                total=page.total,
            )
        hits = page.documents
    unknown = grouping.unknown_fields(transaction, collection, spec, seen)
    return Gathered(grouping.gather(transaction, collection, hits, spec, seen=seen), missing, unknown, collection)
