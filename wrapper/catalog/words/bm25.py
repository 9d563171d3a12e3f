"""BM25 over the segments of a collection, as in FTS5 (k1 = 1.2, b = 0.75), with the collection's own statistics.

A word counts as much as its field does (`HEADING_WEIGHT`, `TAGS_WEIGHT`). A phrase, words of one field that follow each
other, is scored like a word of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wrapper.catalog.contract import Transaction
from wrapper.catalog.words.segments import (
    FIELDS,
    NOWHERE,
    Block,
    Mask,
    Numbers,
    Places,
    field_of,
    occurrences_in,
)
from wrapper.catalog.words.splitting import HEADING_WEIGHT, TAGS_WEIGHT
from wrapper.catalog.words.stored_segments import StoredSegment

K1, B = 1.2, 0.75
LEAST_WEIGHT = 1e-6
"""The weight of a word that more than half of the documents have."""
WEIGHTS = np.array([HEADING_WEIGHT, 1.0, TAGS_WEIGHT, 1.0])

Scores = NDArray[np.float64]


class Ranking:
    """The scores of a collection's documents for words and phrases that are asked one by one, in one snapshot."""

    def __init__(self, transaction: Transaction, segments: Sequence[StoredSegment]) -> None:
        self._transaction = transaction
        self._segments = segments
        self._read: dict[tuple[int, str], Numbers] = {}
        self._documents = sum(segment.documents for segment in segments)
        self._mean_words = sum(segment.words for segment in segments) / max(1, self._documents)
        self._scores: dict[int, Scores] = {}

    def ask(self, phrase: Sequence[str], times: int = 1) -> None:
        """Add the score of a phrase to the documents that have it, as often as the question says it."""
        found = [(segment, *self._frequencies(segment, phrase)) for segment in self._segments]
        having = sum(len(owners) for _, owners, _ in found)
        weight = times * max(LEAST_WEIGHT, math.log((self._documents - having + 0.5) / (having + 0.5)))
        for segment, owners, frequency in found:
            if len(owners):
                if segment.number not in self._scores:
                    self._scores[segment.number] = np.zeros(len(segment.layout.positions))
                norm = K1 * (1 - B + B * segment.layout.words[owners] / self._mean_words)
                self._scores[segment.number][owners] += weight * frequency * (K1 + 1) / (frequency + norm)

    def result(self) -> tuple[Places, Scores]:
        """Return (positions, scores) of all documents that have any of the words and phrases asked."""
        positions, scores = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        for segment in self._segments:
            if segment.number in self._scores:
                found = np.flatnonzero(self._scores[segment.number])
                positions.append(segment.layout.positions[found])
                scores.append(self._scores[segment.number][found])
        return np.concatenate(positions), np.concatenate(scores)

    def _frequencies(self, segment: StoredSegment, phrase: Sequence[str]) -> tuple[Places, Scores]:
        """Return (documents of the segment that have the phrase, the sum of its occurrences' weights in each)."""
        found = self._occurrences(segment, phrase[0])
        for further, word in enumerate(phrase[1:], start=1):
            if not len(found):
                break
            found = found[_among(found + np.uint32(further), self._occurrences(segment, word))]
        if not len(found):
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        fields = field_of(segment.layout, found)
        # The occurrences ascend, so those of one document stand together.
        owners = fields // FIELDS
        firsts = np.flatnonzero(np.diff(owners, prepend=-1))
        frequency = np.add.reduceat(WEIGHTS[fields % FIELDS], firsts)
        owners = owners[firsts]
        if segment.alive is None:
            return owners, frequency
        alive = segment.alive[owners]
        return owners[alive], frequency[alive]

    def _occurrences(self, segment: StoredSegment, term: str) -> Numbers:
        key = segment.number, term
        if key not in self._read:
            row = self._transaction.row(
                "SELECT first_term, terms, content FROM word_blocks WHERE segment = ? AND first_term <= ? "
                "ORDER BY first_term DESC LIMIT 1",
                key,
            )
            self._read[key] = NOWHERE if row is None else occurrences_in(Block(*row), term)
        return self._read[key]


def _among(wanted: Numbers, ascending: Numbers) -> Mask:
    if not len(ascending):
        return np.zeros(len(wanted), dtype=np.bool_)
    places = np.searchsorted(ascending, wanted)
    found: Mask = ascending[np.minimum(places, len(ascending) - 1)] == wanted
    return found
