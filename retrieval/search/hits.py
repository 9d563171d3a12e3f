"""The hits of a search: which of the ranked passages are given, which of them are one hit, and the whole groups of
documents that they are taken from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from providers.base import SupportsGather
from retrieval.search.corpus import OpenCorpus
from retrieval.search.fusion import DocumentKey, key_of
from schemas.bounds import MAX_PAGE
from schemas.contracts.search import FusedResult, SearchedGroup
from schemas.errors import DocumentNotFoundError
from schemas.records import GatherSpec, Group, Metadata, OrderBy
from schemas.storage.joined_text import joined_text

MAX_JOINED = 3
"""The most neighbours that are one hit, so that the hits of a short document do not become all of it."""
IN_ORDER = (OrderBy("chunk_index"),)
"""The order that the chunks have in their document."""


@dataclass(slots=True, eq=False)
class _Hit:
    """Passages of one document, the best one first."""

    passages: list[FusedResult]


def hits_of(
    ranked: Sequence[FusedResult], limit: int, most: int | None, *, joins: bool
) -> tuple[list[FusedResult], int]:
    """Return (the first `limit` hits of ranked passages, at most `most` of a document; how many passages that kept from
    being hits).

    If it `joins`, a passage that touches the passages of a hit becomes a part of it, up to `MAX_JOINED` of them. Where
    `most` is None, only one document was found, and its sections are hits of their own.
    """
    hits: list[_Hit] = []
    at: dict[tuple[DocumentKey, str, int], _Hit] = {}
    """The hit that has the passage of a document, and of its section where these count, at a place."""
    of_document: Counter[DocumentKey] = Counter()
    held_back = 0
    for passage in ranked:
        document, place = key_of(passage), _place(passage)
        section = str(passage.metadata.get("section")) if most is None else ""
        beside = [] if place is None or not joins else [(document, section, place - 1), (document, section, place + 1)]
        touched = sorted({at[each] for each in beside if each in at}, key=hits.index)
        hit = next((each for each in touched if len(each.passages) < MAX_JOINED), None)
        if sum(len(each.passages) for each in touched) < MAX_JOINED:
            for other in touched[1:]:
                touched[0].passages += other.passages
                at |= {(document, section, _place(each) or 0): touched[0] for each in other.passages}
                hits.remove(other)
                of_document[document] -= 1
        if hit is not None:
            hit.passages.append(passage)
        elif len(hits) == limit:
            break
        elif most is None or of_document[document] < most:
            hit = _Hit([passage])
            hits.append(hit)
            of_document[document] += 1
        else:
            held_back += 1
        if hit is not None and place is not None:
            at[document, section, place] = hit
    return [_joined(hit.passages) for hit in hits], held_back


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
    in_order = enumerate(sorted(found, key=lambda placed: placed[0]), start=1)
    return [SearchedGroup(each.collection, replace(each.group, rank=rank)) for rank, (_, each) in in_order]


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


def _joined(passages: Sequence[FusedResult]) -> FusedResult:
    """Return a hit as its best passage, with the text of all in the order of the document, the line where that begins,
    and the pages of all."""
    best = passages[0]
    if len(passages) == 1:
        return best
    in_order = sorted(passages, key=lambda each: _place(each) or 0)
    return replace(
        best,
        content=joined_text([each.content for each in in_order], [_place(each) or 0 for each in in_order]),
        metadata={**best.metadata, **_lines_and_pages(in_order[0].metadata, in_order[-1].metadata)},
        chunk_ids=tuple(each.chunk_id for each in in_order),
    )


def _lines_and_pages(first: Metadata, last: Metadata) -> Metadata:
    """Return the line where one passage begins, and the pages from its to those of another."""
    begins = {"start_line": first["start_line"]} if "start_line" in first else {}
    if "page" not in first:
        return begins
    last_page = last.get("last_page", last.get("page"))
    return begins | {"page": first["page"]} | ({} if last_page in (None, first["page"]) else {"last_page": last_page})


def _place(passage: FusedResult) -> int | None:
    """Return the number of a passage in its document, None where it has none."""
    place = passage.metadata.get("chunk_index")
    return place if isinstance(place, int) and not isinstance(place, bool) else None
