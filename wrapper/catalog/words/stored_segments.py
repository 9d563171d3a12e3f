"""Segments of the word index in their tables: written, listed, read and replaced."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain

import numpy as np

from wrapper.catalog.contract import EncodedSegment, Transaction
from wrapper.catalog.rows import draw
from wrapper.catalog.words.segments import (
    FIELDS,
    NOWHERE,
    Block,
    Layout,
    Mask,
    Numbers,
    Places,
    Segment,
    decoded,
    joined,
)

LAYOUTS_KEPT = 1_200_000
"""The number of documents whose layout a process keeps in memory, at 44 bytes for each. One more than these, and every
question of a word that occurs everywhere would read all of them again."""
LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True)
class StoredSegment:
    """A segment as it is stored; `language` is that of its documents.

    `documents` and `words` count the documents that are alive and their words. `alive` says which they are, None when
    all are.
    """

    number: int
    language: str
    documents: int
    words: int
    alive: Mask | None
    read_layout: Callable[[], Layout]

    @cached_property
    def layout(self) -> Layout:
        return self.read_layout()


def visible(stored: Sequence[StoredSegment], positions: Places) -> list[StoredSegment]:
    """Return the segments as if they had only the documents at these positions, without those that have none."""
    found = []
    for segment in stored:
        alive = np.isin(segment.layout.positions, positions)
        if segment.alive is not None:
            alive &= segment.alive
        documents = int(alive.sum())
        if documents:
            words = int(segment.layout.words[alive].sum())
            layout = segment.layout
            found.append(
                StoredSegment(segment.number, segment.language, documents, words, alive, partial(_same, layout))
            )
    return found


def _same(layout: Layout) -> Layout:
    return layout


class Layouts:
    """A cache of the layouts that were read last; safe for any number of threads.

    A number always names the same segment, and only committed segments are read.
    """

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
    """Return all segments of a collection.

    A document that was removed after its segment was written is not alive in it.
    """
    removals = transaction.rows(
        "SELECT position, moment FROM word_removals WHERE collection_key = ? ORDER BY position", (collection_key,)
    )
    removed = np.array(removals, dtype=np.int64).reshape(-1, 2)
    rows = transaction.rows(
        "SELECT number, language, clean_to, documents, words FROM word_segments WHERE collection_key = ? "
        "ORDER BY number",
        (collection_key,),
    )
    found = []
    for number, language, clean_to, documents, words in rows:

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
        found.append(StoredSegment(number, language, documents, words, alive, read))
    return found


def read(transaction: Transaction, segment: StoredSegment) -> Segment:
    """Read all words of a segment."""
    rows = transaction.rows(
        "SELECT first_term, terms, content FROM word_blocks WHERE segment = ? ORDER BY first_term", (segment.number,)
    )
    return joined(segment.layout, [decoded(Block(*row)) for row in rows])


def blocks_of(
    transaction: Transaction, segments: Sequence[StoredSegment], terms: Sequence[tuple[str, str]]
) -> Iterator[tuple[int, str, Block]]:
    """Yield (segment, term, the block that has the term if any has) for terms with their languages.

    All are read by one statement: on PostgreSQL each takes a way over the network.
    """
    if not terms or not segments:
        return
    wanted = transaction.dialect.one_of("s.number", [each.number for each in segments])
    rows = transaction.rows(
        f"WITH asked (language, term) AS (VALUES {', '.join(['(?, ?)'] * len(terms))}), "
        "places AS (SELECT s.number, a.term, (SELECT max(b.first_term) FROM word_blocks b "
        "WHERE b.segment = s.number AND b.first_term <= a.term) AS first_term "
        f"FROM word_segments s JOIN asked a ON a.language = s.language WHERE {wanted.text}) "
        "SELECT p.number, p.term, b.first_term, b.terms, b.content "
        "FROM places p JOIN word_blocks b ON b.segment = p.number AND b.first_term = p.first_term",
        [*chain.from_iterable(terms), *wanted.parameters],
    )
    for number, term, *block in rows:
        yield number, term, Block(*block)


def occurrences_beginning(transaction: Transaction, number: int, beginning: str) -> Numbers:
    """Return the occurrences of all terms of a segment that begin so, in ascending order."""
    rows = transaction.rows(
        "SELECT first_term, terms, content FROM word_blocks WHERE segment = ? AND first_term < ? AND first_term >= "
        "coalesce((SELECT max(first_term) FROM word_blocks WHERE segment = ? AND first_term <= ?), '')",
        (number, beginning + LAST_CHARACTER, number, beginning),
    )
    found = [NOWHERE]
    for row in rows:
        terms, counts, occurrences = decoded(Block(*row))
        found.append(occurrences[np.repeat([term.startswith(beginning) for term in terms], counts)])
    return np.sort(np.concatenate(found))


def store(
    transaction: Transaction, collection_key: int, written: Sequence[EncodedSegment], *, clean_to: int | None = None
) -> None:
    """Write segments that lack all documents removed up to the moment `clean_to`, or up to now."""
    if not written:
        return
    first = next_moment(transaction, len(written))
    transaction.insert(
        "word_segments",
        "number, collection_key, language, clean_to, documents, words, positions, lengths",
        [
            (
                number,
                collection_key,
                each.language,
                number if clean_to is None else clean_to,
                len(each.positions),
                int(each.lengths.sum()),
                each.positions.astype("<i8").tobytes(),
                each.lengths.astype("<u4").tobytes(),
            )
            for number, each in enumerate(written, first)
        ],
    )
    transaction.insert(
        "word_blocks",
        "segment, first_term, terms, content",
        [(number, *block) for number, each in enumerate(written, first) for block in each.blocks],
    )


def replace(
    transaction: Transaction,
    collection_key: int,
    sources: Sequence[StoredSegment],
    merged: EncodedSegment,
    *,
    clean_to: int,
) -> None:
    """Replace segments of one language by the one that was merged from them at the moment `clean_to`.

    Does nothing when one of them is gone: the collection was emptied meanwhile, or another process replaced them.
    """
    numbers = [source.number for source in sources]
    listed = transaction.dialect.one_of("number", numbers)
    there = transaction.value(f"SELECT count(*) FROM word_segments WHERE {listed.text}", listed.parameters)
    if there != len(numbers):
        return
    gone = transaction.dialect.one_of("segment", numbers)
    transaction.run(f"DELETE FROM word_blocks WHERE {gone.text}", gone.parameters)
    transaction.run(f"DELETE FROM word_segments WHERE {listed.text}", listed.parameters)
    if len(merged.positions):
        store(transaction, collection_key, [merged], clean_to=clean_to)
    _forget_removals(transaction, collection_key, clean_to)


def settle(transaction: Transaction, *, collection_key: int, numbers: Sequence[int], clean_to: int) -> None:
    """Record of segments that they lack all documents removed up to a moment, so that removals that no segment has to
    know of any more are forgotten: every question reads all that there are."""
    settled = transaction.dialect.one_of("number", numbers)
    transaction.run(f"UPDATE word_segments SET clean_to = ? WHERE {settled.text}", (clean_to, *settled.parameters))
    _forget_removals(transaction, collection_key, clean_to)


def _forget_removals(transaction: Transaction, collection_key: int, clean_to: int) -> None:
    transaction.run(
        "DELETE FROM word_removals WHERE collection_key = ? AND moment <= "
        "(SELECT coalesce(min(clean_to), ?) FROM word_segments WHERE collection_key = ?)",
        (collection_key, clean_to, collection_key),
    )


def moment(transaction: Transaction) -> int:
    """Return the moment of the last change."""
    return int(transaction.value("SELECT value FROM counters WHERE name = 'words'"))


def next_moment(transaction: Transaction, moments: int = 1) -> int:
    """Return the first of some moments later than all before them, inside a write transaction."""
    return draw(transaction, "words", moments)
