"""Reports about the indexes: their last look, their recall and rebuild, and the writes that they lack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.records import Collection


@dataclass(frozen=True, slots=True)
class IndexReport:
    """A report about one index. Times are seconds since 1970.

    `fault` is what the last look found wrong. `recall_at_10` is without a filter, `filtered_recall_at_10` the lower one
    of two filters; both hold where the engine is asked for at least so many `candidates`, None: for as many as a query
    needs. `search_width` is the `ef_search` that the index was given because of its recall, None: that of a new one.
    `rebuild_reason` is None unless a rebuild is under way, which has done
    `documents_rebuilt` so far; `rebuilds` have finished.
    """

    checked_at_seconds: float | None = None
    documents_held: int | None = None
    index_bytes: int | None = None
    fault: str | None = None
    recall_at_10: float | None = None
    filtered_recall_at_10: float | None = None
    recall_at_seconds: float | None = None
    candidates: int | None = None
    search_width: int | None = None
    rebuild_reason: str | None = None
    documents_rebuilt: int = 0
    rebuilds: int = 0

    @property
    def lowest_recall(self) -> float | None:
        """The lower recall of the two, None before the first measurement."""
        measured = [each for each in (self.recall_at_10, self.filtered_recall_at_10) if each is not None]
        return min(measured, default=None)


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """All indexes in a few numbers.

    `ready` of them are ready and `rebuilding` are being rebuilt; `faulty` are pairs (collection, fault), and
    `lowest_recall` is the collection with the lowest recall@10, with and without filters, and its report.
    """

    ready: int
    rebuilding: list[tuple[Collection, IndexReport]]
    faulty: list[tuple[str, str]]
    lowest_recall: tuple[str, IndexReport] | None


@dataclass(frozen=True, slots=True)
class SetAside:
    """A document that the engine cannot take.

    `since_seconds` counts from 1970; `reason` is the service's own sentence and quotes nothing of the document.
    """

    collection: str
    id: str
    reason: str
    since_seconds: float


@dataclass(frozen=True, slots=True)
class Standstill:
    """A collection whose writes wait because the engine did not take them. `since_seconds` counts from 1970."""

    collection: str
    reason: str
    since_seconds: float


@dataclass(frozen=True, slots=True)
class Adoption:
    """A collection that is taken in from the engine.

    `of` is the number of documents that the engine had when it was last counted, and `left_out` the number of those
    that the catalogue cannot hold, which is known once the adoption is complete.
    """

    collection: str
    documents: int
    of: int
    left_out: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Hindrances:
    """Writes that the engine does not take: `refused` documents are set aside, of which `first_refused` are named."""

    standing_still: Sequence[Standstill]
    refused: int
    first_refused: Sequence[SetAside]


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """A collection, the report about its index, and the number of writes that the index has yet to be told of.

    `stored_bytes` are those of its documents in the catalogue: their texts, metadata and vectors.
    """

    collection: Collection
    report: IndexReport
    is_rebuilding: bool
    waiting_writes: int
    hindrances: Hindrances
    stored_bytes: int
