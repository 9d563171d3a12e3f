"""The words of segments that are asked often, held in memory: a question then reads nothing of the word index.

Segments never change, so what is held of one stays true as long as it is asked for. A write adds small segments, which
the next question holds as well.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from schemas.words.splitting import is_letter
from wrapper.catalog.contract import Transaction
from wrapper.catalog.words.bm25 import Occurrences, stored_occurrences
from wrapper.catalog.words.segments import NOWHERE, Numbers, Places
from wrapper.catalog.words.stored_segments import StoredSegment, read

MOST_BYTES = 48 << 20
"""The most memory that all segments that a process holds may take."""
TERM_BYTES, WORD_BYTES = 90, 4
"""The memory that a term takes, with its string, its count and where it ends, and each word."""
WORDS_A_QUESTION = 50_000
"""The number of words that a question pays for: it takes a millisecond or two to read them."""
READ_WORDS = 2_000
"""What reading a segment costs beside its words, in words: on PostgreSQL it is a way over the network."""
MOST_COUNTED = 1_000
"""The number of collections whose questions are counted, and of segments that were too large, the last ones."""


@dataclass(frozen=True)
class HeldSegment:
    """The words of a segment: its terms in order, where those of each end, and where they occur."""

    terms: Sequence[str]
    ends: Places
    occurrences: Numbers

    @property
    def size_bytes(self) -> int:
        return TERM_BYTES * len(self.terms) + WORD_BYTES * len(self.occurrences)

    def occurrences_of(self, term: str) -> Numbers:
        """Return where a term occurs, in ascending order."""
        first = bisect_left(self.terms, term)
        after = first
        while after < len(self.terms) and (
            self.terms[after].startswith(term) if is_letter(term) else self.terms[after] == term
        ):
            after += 1
        if first == after:
            return NOWHERE
        found = self.occurrences[(self.ends[first - 1] if first else 0) : self.ends[after - 1]]
        return found if after == first + 1 else np.sort(found)


class HeldWords:
    """The segments that a process holds, in at most `most_bytes`; safe for any number of threads.

    A question pays for `words_a_question` words, and the smallest segments of its collection that are not held yet are
    read once they are paid for. Where all do not fit, those that were asked longest ago make room, but none that the
    same question asks.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, words_a_question: int = WORDS_A_QUESTION) -> None:
        self._most_bytes = most_bytes
        self._words_a_question = words_a_question
        self._held: OrderedDict[int, HeldSegment] = OrderedDict()
        self._size_bytes = 0
        # By collection, the words that its questions have paid for and nobody has read.
        self._paid: OrderedDict[int, int] = OrderedDict()
        # By segment, the bytes of those that were read and found no room: the same question would read them for ever.
        self._too_large: OrderedDict[int, int] = OrderedDict()
        self._guard = threading.Lock()

    def of(
        self, transaction: Transaction, collection_key: int, stored: Sequence[StoredSegment]
    ) -> dict[int, HeldSegment]:
        """Return those of a collection's segments that are held, by their numbers, and count a question."""
        with self._guard:
            held = {each.number: self._held[each.number] for each in stored if each.number in self._held}
            for number in held:
                self._held.move_to_end(number)
            if len(held) == len(stored):
                return held
            due = self._due(collection_key, [each for each in stored if each.number not in held], held)
        for segment in due:
            words = read(transaction, segment)
            held[segment.number] = HeldSegment(words.terms, np.cumsum(words.counts), words.occurrences)
            self._keep(segment.number, held)
        return held

    def _due(
        self, collection_key: int, missing: Sequence[StoredSegment], held: Mapping[int, HeldSegment]
    ) -> list[StoredSegment]:
        paid = self._paid.pop(collection_key, 0) + self._words_a_question
        room_bytes = self._most_bytes - sum(each.size_bytes for each in held.values())
        due = []
        for words, segment in sorted(((_words_of(each), each) for each in missing), key=itemgetter(0)):
            # What its terms take besides its words is known once they were read.
            size_bytes = self._too_large.get(segment.number, WORD_BYTES * words)
            if size_bytes > room_bytes:
                break
            if READ_WORDS + words > paid:
                self._paid[collection_key] = paid
                _shorten(self._paid)
                break
            paid -= READ_WORDS + words
            room_bytes -= size_bytes
            due.append(segment)
        return due

    def _keep(self, number: int, asked: Mapping[int, HeldSegment]) -> None:
        """Keep a segment where there is room beside the others that are asked with it."""
        with self._guard:
            if number in self._held:
                return
            if sum(each.size_bytes for each in asked.values()) > self._most_bytes:
                self._too_large[number] = asked[number].size_bytes
                _shorten(self._too_large)
                return
            self._held[number] = asked[number]
            self._size_bytes += asked[number].size_bytes
            while self._size_bytes > self._most_bytes:
                _, let_go = self._held.popitem(last=False)
                self._size_bytes -= let_go.size_bytes


def _words_of(segment: StoredSegment) -> int:
    """Return how many words a segment has, those of documents that are gone included."""
    return segment.words if segment.alive is None else int(segment.layout.words.sum())


def _shorten(counted: OrderedDict[int, int]) -> None:
    while len(counted) > MOST_COUNTED:
        counted.popitem(last=False)


def occurrences_of(
    transaction: Transaction,
    stored: Sequence[StoredSegment],
    held: Mapping[int, HeldSegment],
    terms: Sequence[tuple[str, str]],
) -> Occurrences:
    """Return what `bm25.stored_occurrences` returns, and read only what is not held."""
    found = stored_occurrences(transaction, [each for each in stored if each.number not in held], terms)
    for language, term in terms:
        for segment in stored:
            if segment.language == language and segment.number in held:
                occurrences = held[segment.number].occurrences_of(term)
                if len(occurrences):
                    found[segment.number, term] = occurrences
    return found
