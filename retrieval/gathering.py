"""The whole groups that results bring with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from providers.base import SupportsGather
from retrieval.corpus import OpenCorpus
from schemas.errors import DocumentNotFoundError
from schemas.records import GatherSpec, Group, OrderBy
from schemas.searched import FusedResult, SearchedGroup
from schemas.wire import MAX_PAGE

IN_ORDER = (OrderBy("chunk_index"),)
"""The order of the chunks in their document."""


def gather_groups(corpus: OpenCorpus, results: Sequence[FusedResult], spec: GatherSpec) -> list[SearchedGroup]:
    """Each group once, in the order of its best result, whatever collections they are from. Raises UnsupportedError
    when the storage cannot gather."""
    places = {(result.collection, result.chunk_id): place for place, result in enumerate(results)}
    found: list[tuple[int, SearchedGroup]] = []
    for collection in dict.fromkeys(result.collection for result in results):
        ids = [result.chunk_id for result in results if result.collection == collection]
        for group in corpus.able(SupportsGather).gather(collection, ids, spec):
            best = min(places[collection, hit] for hit in group.hits)
            found.append((best, SearchedGroup(collection, group)))
    ordered = [each for _, each in sorted(found, key=lambda placed: placed[0])]
    return [
        SearchedGroup(each.collection, replace(each.group, rank=rank)) for rank, each in enumerate(ordered, start=1)
    ]


def gather_around(corpus: OpenCorpus, collection: str, chunk_id: str, field: str) -> Group:
    """The whole group of one chunk, by a field of its metadata and in the order of the document. Raises
    CollectionNotFoundError, DocumentNotFoundError, UnsupportedError when the storage cannot gather."""
    groups = corpus.able(SupportsGather).gather(collection, [chunk_id], GatherSpec(field, IN_ORDER, MAX_PAGE))
    if not groups:
        raise DocumentNotFoundError(collection, chunk_id)
    return groups[0]
