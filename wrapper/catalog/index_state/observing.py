"""What the catalogue knows of all collections in a few numbers, and of the largest in more: what metrics show.

The cost is that of the table of collections, not of their documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.records import Collection
from schemas.storage.index_reports import IndexReport
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import outbox, reports, set_aside, standstills
from wrapper.catalog.index_state.states import ADOPTING, REBUILDING
from wrapper.catalog.rows import COLLECTION, IS_SHOWN, to_collection

MOST_SHOWN = 100
"""The most collections that have series of their own: those with the most documents."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The numbers of one snapshot. `largest` are the collections with the most documents, `reports` theirs by key."""

    index_lag: int
    collections: int
    documents: int
    rebuilding: int
    adopting: int
    faulty: int
    standing_still: int
    set_aside: int
    lowest_recall: float | None
    lowest_filtered_recall: float | None
    largest: Sequence[Collection]
    reports: Mapping[int, IndexReport]

    @property
    def rebuilding_keys(self) -> frozenset[int]:
        return frozenset(each.key for each in self.largest if each.index_state == REBUILDING)


def observe(transaction: Transaction) -> Observed:
    """Return what the catalogue knows now."""
    states = transaction.rows(
        f"SELECT index_state, count(*), coalesce(sum(count), 0) FROM collections WHERE {IS_SHOWN} GROUP BY 1"
    )
    number = {row[0]: int(row[1]) for row in states}
    largest = [
        to_collection(row)
        for row in transaction.rows(
            f"SELECT {COLLECTION} FROM collections WHERE {IS_SHOWN} ORDER BY count DESC, key LIMIT ?", (MOST_SHOWN,)
        )
    ]
    [lowest] = transaction.rows("SELECT min(recall_at_10), min(filtered_recall_at_10) FROM index_reports")
    return Observed(
        index_lag=outbox.lag(transaction),
        collections=sum(number.values()),
        documents=sum(int(row[2]) for row in states),
        rebuilding=number.get(REBUILDING, 0),
        adopting=number.get(ADOPTING, 0),
        faulty=int(transaction.value("SELECT count(*) FROM index_reports WHERE fault <> ''")),
        standing_still=len(standstills.find(transaction)),
        set_aside=sum(set_aside.counts(transaction).values()),
        lowest_recall=lowest[0],
        lowest_filtered_recall=lowest[1],
        largest=largest,
        reports=reports.find_some(transaction, [each.key for each in largest]),
    )
