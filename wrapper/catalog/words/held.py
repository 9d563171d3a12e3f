"""The words of collections that are asked often, held in memory: a question then reads nothing of the word index.

What is held are the collection's segments, merged as on the disk. It answers only for the segments it was made of, so
any write makes it useless, and the next questions read the segments again until it pays to merge them anew.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from schemas.words.splitting import is_letter
from wrapper.catalog.contract import Transaction
from wrapper.catalog.words.segments import NOWHERE, Layout, Numbers, Places, Segment, merge
from wrapper.catalog.words.stored_segments import StoredSegment, read

MOST_WORDS = 4 << 20
"""The most words of a collection that is held: merging takes some 25 bytes of memory a word."""
MOST_BYTES = 48 << 20
"""The most memory that what a process holds of all collections together may take."""
TERM_BYTES, DOCUMENT_BYTES, WORD_BYTES = 90, 48, 4
"""The memory that a term takes, with its string, its count and where it ends, and each document and word."""
WORDS_A_QUESTION = 50_000
"""The number of words that are merged in the time that a question takes without being held, roughly: a collection is
held after as many questions since its last write as would have taken that time."""
MOST_COUNTED = 1_000
"""The number of collections whose questions are counted, those that were asked last."""

_State = tuple[tuple[int, int], ...]
"""The segments of a collection and how many documents are alive in each: removals can only make them fewer."""


@dataclass(frozen=True)
class Held:
    """The words of one collection, one segment for each language. Its `segments` are ranked like stored ones."""

    state: _State
    segments: Sequence[StoredSegment]
    merged: Sequence[Segment]
    ends: Sequence[Places]

    @property
    def size_bytes(self) -> int:
        return sum(
            TERM_BYTES * len(each.terms)
            + DOCUMENT_BYTES * len(each.layout.positions)
            + WORD_BYTES * len(each.occurrences)
            for each in self.merged
        )

    def occurrences(self, terms: Iterable[tuple[str, str]]) -> dict[tuple[int, str], Numbers]:
        """Return what `bm25.stored_occurrences` returns for terms with their languages."""
        found = {}
        for language, term in terms:
            for number, segment in enumerate(self.segments):
                if segment.language == language and len(occurrences := self._of(number, term)):
                    found[segment.number, term] = occurrences
        return found

    def _of(self, number: int, term: str) -> Numbers:
        terms, occurrences, ends = self.merged[number].terms, self.merged[number].occurrences, self.ends[number]
        first = bisect_left(terms, term)
        after = first
        while after < len(terms) and (terms[after].startswith(term) if is_letter(term) else terms[after] == term):
            after += 1
        if first == after:
            return NOWHERE
        found = occurrences[(ends[first - 1] if first else 0) : ends[after - 1]]
        return found if after == first + 1 else np.sort(found)


class HeldWords:
    """The collections that a process holds; safe for any number of threads.

    Where all do not fit, the one that was asked longest ago makes room; it is held again once that pays again. One that
    does not fit alone is not tried again before its next write.
    """

    def __init__(
        self,
        most_words: int = MOST_WORDS,
        most_bytes: int = MOST_BYTES,
        words_a_question: int = WORDS_A_QUESTION,
    ) -> None:
        self._most_words = most_words
        self._most_bytes = most_bytes
        self._words_a_question = words_a_question
        self._held: OrderedDict[int, Held] = OrderedDict()
        self._asked: OrderedDict[int, tuple[_State, int]] = OrderedDict()
        self._guard = threading.Lock()

    def find(self, transaction: Transaction, collection_key: int, stored: Sequence[StoredSegment]) -> Held | None:
        """Return the words of a collection with these segments, None while it does not pay to hold them."""
        state = tuple((segment.number, segment.documents) for segment in stored)
        with self._guard:
            held = self._held.get(collection_key)
            if held is not None and held.state == state:
                self._held.move_to_end(collection_key)
                return held
            self._held.pop(collection_key, None)
            if not self._is_due(collection_key, state, sum(segment.words for segment in stored)):
                return None
        try:
            held = _merged(transaction, state, stored)
        except Exception:
            self._count_anew(collection_key)
            raise
        if held.size_bytes <= self._most_bytes:
            self._keep(collection_key, held)
        return held

    def _keep(self, collection_key: int, held: Held) -> None:
        with self._guard:
            self._held[collection_key] = held
            self._held.move_to_end(collection_key)
            while sum(each.size_bytes for each in self._held.values()) > self._most_bytes:
                let_go, _ = self._held.popitem(last=False)
                self._asked.pop(let_go, None)

    def _count_anew(self, collection_key: int) -> None:
        with self._guard:
            self._asked.pop(collection_key, None)

    def _is_due(self, collection_key: int, state: _State, words: int) -> bool:
        """Count a question. Returns True for one of them, that after which holding pays."""
        before, asked = self._asked.get(collection_key, (state, 0))
        asked = asked + 1 if before == state else 1
        self._asked[collection_key] = state, asked
        self._asked.move_to_end(collection_key)
        while len(self._asked) > MOST_COUNTED:
            self._asked.popitem(last=False)
        return 0 < words <= self._most_words and asked == 2 + words // self._words_a_question


def _merged(transaction: Transaction, state: _State, stored: Sequence[StoredSegment]) -> Held:
    segments, merged = [], []
    for number, language in enumerate(dict.fromkeys(segment.language for segment in stored)):
        mine = [segment for segment in stored if segment.language == language]
        one = merge([(read(transaction, segment), segment.alive) for segment in mine])
        documents, words = len(one.layout.positions), int(one.layout.words.sum())
        segments.append(StoredSegment(number, language, documents, words, None, _always(one.layout)))
        merged.append(one)
    return Held(state, segments, merged, [np.cumsum(each.counts) for each in merged])


def _always(layout: Layout) -> Callable[[], Layout]:
    return lambda: layout
