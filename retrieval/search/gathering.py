"""The whole groups of documents that results are taken from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from providers.base import SupportsGather
from retrieval.search.corpus import OpenCorpus
from schemas.bounds import MAX_PAGE
from schemas.contracts.search import FusedResult, SearchedGroup
from schemas.errors import DocumentNotFoundError
from schemas.records import GatherSpec, Group, OrderBy

IN_ORDER = (OrderBy("chunk_index"),)
"""The order that the chunks have in their document."""


def gather_groups(corpus: OpenCorpus, results: Sequence[FusedResult], spec: GatherSpec) -> list[SearchedGroup]:
    """Return each group of the results once, sorted by its best result across all collections.

    Raises UnsupportedError when the storage cannot gather.
    """
    places = {
        (result.collection, chunk_id): place
        for place, result in enumerate(results)
        for chunk_id in result.chunk_ids or (result.chunk_id,)
    }
    found: list[tuple[int, SearchedGroup]] = []
    for collection in dict.fromkeys(result.collection for result in results):
        ids = [chunk_id for name, chunk_id in places if name == collection]
        for group in corpus.able(SupportsGather).gather(collection, ids, spec):
            best = min(places[collection, hit] for hit in group.hits)
            found.append((best, SearchedGroup(collection, group)))
    ordered = [each for _, each in sorted(found, key=lambda placed: placed[0])]
    return [
        SearchedGroup(each.collection, replace(each.group, rank=rank)) for rank, each in enumerate(ordered, start=1)
    ]


def gather_around(
    corpus: OpenCorpus,
    collection: str,
    chunk_id: str,
    field: str,
    *,
    before: int | None = None,
    after: int | None = None,
) -> Group:
    """Return the group of one chunk with its text, by a field of its metadata and in the order of the document.

    It is whole unless `before` or `after` say how many chunks around the one are wanted. Raises
    CollectionNotFoundError, DocumentNotFoundError, and UnsupportedError when the storage cannot gather.
    """
    spec = GatherSpec((field,), IN_ORDER, MAX_PAGE, before, after, text=True)
    groups = corpus.able(SupportsGather).gather(collection, [chunk_id], spec)
    if not groups:
        raise DocumentNotFoundError(collection, chunk_id)
    return groups[0]
