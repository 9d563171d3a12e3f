"""The hits of a search: which of the ranked passages are given, and which of them are one hit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from retrieval.search.fusion import DocumentKey, key_of
from schemas.contracts.search import FusedResult
from schemas.records import Metadata
from schemas.storage.joined_text import joined_text

MAX_JOINED = 3
"""The most neighbours that are one hit, so that the hits of a short document do not become all of it."""


@dataclass(slots=True)
class _Hit:
    """Passages of one document, the best one first."""

    passages: list[FusedResult]

    def touches(self, passage: FusedResult) -> bool:
        """Return whether the passage is the neighbour of one of these."""
        place = _place(passage)
        return (
            place is not None
            and key_of(passage) == key_of(self.passages[0])
            and any(_place(each) in (place - 1, place + 1) for each in self.passages)
        )


def hits_of(
    ranked: Sequence[FusedResult], limit: int, most: int | None, *, joins: bool
) -> tuple[list[FusedResult], int]:
    """Return (the first `limit` hits of ranked passages, at most `most` of a document; how many passages that kept from
    being hits).

    If it `joins`, a passage that touches the passages of a hit becomes a part of it, up to `MAX_JOINED` of them.
    """
    hits: list[_Hit] = []
    of_document: Counter[DocumentKey] = Counter()
    held_back = 0
    for passage in ranked:
        touched = [hit for hit in hits if hit.touches(passage)] if joins else []
        if touched and _join(hits, touched, passage):
            of_document[key_of(passage)] = sum(key_of(hit.passages[0]) == key_of(passage) for hit in hits)
        elif len(hits) == limit:
            break
        elif most is None or of_document[key_of(passage)] < most:
            hits.append(_Hit([passage]))
            of_document[key_of(passage)] += 1
        else:
            held_back += 1
    return [_joined(hit.passages) for hit in hits], held_back


def _join(hits: list[_Hit], touched: Sequence[_Hit], passage: FusedResult) -> bool:
    """Add a passage to the hits that it touches, one or both of them, unless they are too long for that."""
    together = [each for hit in touched for each in hit.passages]
    if len(together) < MAX_JOINED:
        touched[0].passages = [*together, passage]
        for other in touched[1:]:
            hits.remove(other)
        return True
    room = next((hit for hit in touched if len(hit.passages) < MAX_JOINED), None)
    if room is not None:
        room.passages.append(passage)
    return room is not None


def _joined(passages: Sequence[FusedResult]) -> FusedResult:
    """Return a hit as its best passage, with the text of all in the order of the document."""
    best = passages[0]
    if len(passages) == 1:
        return best
    in_order = sorted(passages, key=lambda each: _place(each) or 0)
    return replace(
        best,
        content=joined_text([each.content for each in in_order], [_place(each) or 0 for each in in_order]),
        metadata={**best.metadata, **_extent(in_order[0].metadata, in_order[-1].metadata)},
        chunk_ids=tuple(each.chunk_id for each in in_order),
    )


def _extent(first: Metadata, last: Metadata) -> Metadata:
    """Return where neighbours begin and end in their document."""
    extent: Metadata = {name: first[name] for name in ("section", "section_id", "page", "start_line") if name in first}
    last_page = last.get("last_page", last.get("page"))
    return extent if last_page in (None, first.get("page")) else {**extent, "last_page": last_page}


def _place(passage: FusedResult) -> int | None:
    """Return the number of a passage in its document, None where it has none."""
    place = passage.metadata.get("chunk_index")
    return place if isinstance(place, int) and not isinstance(place, bool) else None
