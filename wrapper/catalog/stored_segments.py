"""Segments of the word index where they are stored: written, listed, read, exchanged for others."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wrapper.catalog.transaction import Transaction
from wrapper.catalog.word_segments import FIELDS, Block, Layout, Mask, Segment, blocks, decoded, joined

LAYOUTS_KEPT = 300_000
"""Documents whose places in the index a process remembers, with 64 bytes for each."""


@dataclass(frozen=True)
class StoredSegment:
    """`documents` are those that are alive, and `words` theirs; `alive` says which, None where all are."""

    number: int
    documents: int
    words: int
    alive: Mask | None
    read_layout: Callable[[], Layout]

    @cached_property
    def layout(self) -> Layout:
        return self.read_layout()


class Layouts:
    """The layouts that were read last; safe for any number of threads. A number names one segment for ever, and only
    what is committed is read."""

    def __init__(self, most_documents: int = LAYOUTS_KEPT) -> None:
        self._most_documents = most_documents
        self._kept: OrderedDict[int, Layout] = OrderedDict()
        self._documents = 0
        self._guard = threading.Lock()

    def read(self, transaction: Transaction, number: int) -> Layout:
        with self._guard:
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
        row = transaction.row("SELECT positions, lengths FROM word_segments WHERE number = ?", (number,))
        assert row is not None
        layout = Layout(np.frombuffer(row[0], dtype="<i8"), np.frombuffer(row[1], dtype="<u4").reshape(-1, FIELDS))
        with self._guard:
            if number not in self._kept:
                self._kept[number] = layout
                self._documents += len(layout.positions)
            while self._documents > self._most_documents:
                _, oldest = self._kept.popitem(last=False)
                self._documents -= len(oldest.positions)
        return layout


def segments(transaction: Transaction, layouts: Layouts, collection_key: int) -> list[StoredSegment]:
    """All segments of a collection. Not alive are the documents that were taken out after a segment was written."""
    removals = transaction.rows(
        "SELECT position, moment FROM word_removals WHERE collection_key = ? ORDER BY position", (collection_key,)
    )
    removed = np.array(removals, dtype=np.int64).reshape(-1, 2)
    rows = transaction.rows(
        "SELECT number, clean_to, documents, words FROM word_segments WHERE collection_key = ? ORDER BY number",
        (collection_key,),
    )
    found = []
    for number, clean_to, documents, words in rows:

        def read(number: int = number) -> Layout:
            return layouts.read(transaction, number)

        alive = None
        gone = removed[removed[:, 1] > clean_to, 0]
        if len(gone):
            layout = read()
            dead = np.isin(layout.positions, gone)
            if dead.any():
                alive = ~dead
                documents, words = int(alive.sum()), int(layout.words[alive].sum())
        found.append(StoredSegment(number, documents, words, alive, read))
    return found


def read(transaction: Transaction, segment: StoredSegment) -> Segment:
    """All of a segment."""
    rows = transaction.rows(
        "SELECT first_term, terms, content FROM word_blocks WHERE segment = ? ORDER BY first_term", (segment.number,)
    )
    return joined(segment.layout, [decoded(Block(*row)) for row in rows])


def store(transaction: Transaction, collection_key: int, segment: Segment, *, number: int, clean_to: int) -> None:
    """Write a segment, from which is left out what was taken out until the moment `clean_to`."""
    layout = segment.layout
    transaction.run(
        "INSERT INTO word_segments (number, collection_key, clean_to, documents, words, positions, lengths) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            number,
            collection_key,
            clean_to,
            len(layout.positions),
            int(layout.words.sum()),
            layout.positions.astype("<i8").tobytes(),
            layout.lengths.astype("<u4").tobytes(),
        ),
    )
    transaction.insert(
        "word_blocks", "segment, first_term, terms, content", [(number, *block) for block in blocks(segment)]
    )


def replace(
    transaction: Transaction, collection_key: int, numbers: Sequence[int], merged: Segment, *, clean_to: int
) -> None:
    """Put a merged segment in the place of those that it was made from at the moment `clean_to`, unless one of them is
    gone: the collection was emptied then, or another process did the same."""
    listed = transaction.dialect.one_of("number", numbers)
    there = transaction.value(f"SELECT count(*) FROM word_segments WHERE {listed.text}", listed.parameters)
    if there != len(numbers):
        return
    gone = transaction.dialect.one_of("segment", numbers)
    transaction.run(f"DELETE FROM word_blocks WHERE {gone.text}", gone.parameters)
    transaction.run(f"DELETE FROM word_segments WHERE {listed.text}", listed.parameters)
    if len(merged.layout.positions):
        store(transaction, collection_key, merged, number=next_moment(transaction), clean_to=clean_to)
    transaction.run(
        "DELETE FROM word_removals WHERE collection_key = ? AND moment <= "
        "(SELECT coalesce(min(clean_to), ?) FROM word_segments WHERE collection_key = ?)",
        (collection_key, clean_to, collection_key),
    )


def moment(transaction: Transaction) -> int:
    """The moment of the last change."""
    return int(transaction.value("SELECT value FROM counters WHERE name = 'words'"))


def next_moment(transaction: Transaction) -> int:
    """A moment that is later than all before it, inside a write transaction."""
    return int(transaction.value("UPDATE counters SET value = value + 1 WHERE name = 'words' RETURNING value"))
