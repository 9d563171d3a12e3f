"""Writes of documents in three steps, so that the write lock is held for no more than storing.

A write is planned in a snapshot, which refuses what cannot be done; prepared without a transaction (language, stems,
signatures, fields, compression); and stored in a write transaction. Where the collection has changed since, it is
planned again there, and what is still the same is not prepared again. Of filters, only what changed is looked at there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from schemas.bounds import bounded
from schemas.records import Collection, DocumentBatch, Metadata
from schemas.storage.outcomes import WriteOutcome
from wrapper.catalog.changes.held_matches import PlannedMatches
from wrapper.catalog.contract import GiveWay, PreparedWords, TextIndex, Transaction, go_on
from wrapper.catalog.index_state.adoptions import writable
from wrapper.catalog.rows import dump_extras, dump_json
from wrapper.catalog.sortable_values import flatten
from wrapper.catalog.words.languages import declared_language
from wrapper.catalog.words.splitting import word_row

Field = tuple[str, bytes]
"""A path and a value, as `document_fields` has them."""


class Plan(Protocol):
    """What a write does to a collection in the state in which that was read."""

    name: str
    collection: Collection

    def prepare(self, before: Any, give_way: GiveWay) -> None:
        """Compute what `store` needs, or take it from the plan before, if there is one, of the same write."""

    def store(self, transaction: Transaction) -> WriteOutcome: ...


class DocumentWrite:
    """A write of documents; `make_plan` raises what refuses it."""

    def __init__(self, make_plan: Callable[[Transaction, PlannedMatches], Plan]) -> None:
        self._make_plan = make_plan
        self._matches = PlannedMatches()
        self._before: Plan | None = None
        self._plan: Plan | None = None

    def plan(self, transaction: Transaction) -> None:
        """Take the first step, in a snapshot. It may be taken again."""
        self._before, self._plan = self._plan, self._make_plan(transaction, self._matches)

    def prepare(self, give_way: GiveWay) -> None:
        """Take the second step, after the first."""
        if self._plan is not None:
            self._plan.prepare(self._before, give_way)

    def store(self, transaction: Transaction) -> WriteOutcome:
        """Take the last step, and those before it that were not taken, or for another state than this.

        Raises OutdatedPlanError when that would take long, after the first step."""
        plan = self._plan
        if plan is None or not _is_of_now(plan, transaction):
            plan = self._make_plan(transaction, PlannedMatches() if plan is None else self._matches.in_lock())
            plan.prepare(self._plan, go_on)
        return plan.store(transaction)


def _is_of_now(plan: Plan, transaction: Transaction) -> bool:
    collection = writable(transaction, plan.name)
    return (collection.key, collection.revision) == (plan.collection.key, plan.collection.revision)


@dataclass(frozen=True, slots=True)
class PreparedDocuments:
    """Documents as the tables have them, but for their positions and their revision.

    They are the rows `numbers` of a batch. `language` is the one that their collection names, `rows` have id, text,
    metadata and extras, and `words` have places in these lists for positions.
    """

    batch: DocumentBatch
    numbers: Sequence[int]
    language: str | None
    rows: list[tuple[str, str, str, str | None]]
    vectors: list[bytes]
    fields: list[list[Field]]
    words: PreparedWords

    def are(self, batch: DocumentBatch, numbers: Sequence[int], collection: Collection) -> bool:
        """Return whether these are those rows of a batch, ready for the collection as it is."""
        return (
            self.numbers == numbers
            and self.language == declared_language(collection.metadata)
            and (self.batch is batch or (self.rows, self.vectors) == (_rows(batch, numbers), _vectors(batch, numbers)))
        )


def prepare_documents(
    index: TextIndex, collection: Collection, batch: DocumentBatch, numbers: Sequence[int], give_way: GiveWay = go_on
) -> PreparedDocuments:
    """Prepare the rows `numbers` of a batch for a collection. It takes processor time alone, half a millisecond for
    1,500 letters."""
    words = []
    for place, number in enumerate(numbers):
        give_way()
        words.append(word_row(place, batch.texts[number], batch.metadatas[number], collection.metadata))
    return PreparedDocuments(
        batch,
        numbers,
        declared_language(collection.metadata),
        _rows(batch, numbers),
        _vectors(batch, numbers),
        [fields_of(batch.metadatas[number]) for number in numbers],
        index.prepare(words, give_way),
    )


def fields_of(metadata: Metadata) -> list[Field]:
    """Return the fields behind `where` of a document's metadata."""
    return [(bounded(path), value) for path, values in flatten(metadata).items() for value in values]


def _rows(batch: DocumentBatch, numbers: Sequence[int]) -> list[tuple[str, str, str, str | None]]:
    return [
        (batch.ids[each], batch.texts[each], dump_json(batch.metadatas[each]), dump_extras(batch.extras.get(each)))
        for each in numbers
    ]


def _vectors(batch: DocumentBatch, numbers: Sequence[int]) -> list[bytes]:
    vectors = np.ascontiguousarray(batch.embeddings, dtype="<f4")
    return [vectors[each].tobytes() for each in numbers]
