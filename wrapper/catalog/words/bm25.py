"""BM25 over the segments of a collection, as in FTS5 (k1 = 1.2, b = 0.75), with the collection's own statistics.

A word counts as much as its field does (`HEADING_WEIGHT`, `TAGS_WEIGHT`). A phrase, words of one field that follow each
other, is scored like a word of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.words.splitting import is_letter
from wrapper.catalog.contract import Transaction
from wrapper.catalog.words.segments import (
    FIELDS,
    NOWHERE,
    Mask,
    Numbers,
    Places,
    field_of,
    occurrences_in,
)
from wrapper.catalog.words.splitting import HEADING_WEIGHT, TAGS_WEIGHT
from wrapper.catalog.words.stored_segments import StoredSegment, blocks_of, occurrences_beginning

K1, B = 1.2, 0.75
LEAST_WEIGHT = 1e-6
"""The weight of a word that more than half of the documents have."""
WEIGHTS = np.array([HEADING_WEIGHT, 1.0, TAGS_WEIGHT, 1.0])

Scores = NDArray[np.float64]

Occurrences = dict[tuple[int, str], Numbers]
"""Where terms occur, by segment and term."""
Phrases = tuple[tuple[str, tuple[str, ...]], ...]
"""One word or phrase of a question: for each language of the collection, the terms that it is made of there."""


def ranked(
    segments: Sequence[StoredSegment], occurrences: Mapping[tuple[int, str], Numbers], asked: Mapping[Phrases, int]
) -> tuple[Places, Scores]:
    """Return (positions, scores) of all documents that have any of the words and phrases asked, in no order.

    `asked` says how often the question has each, and `occurrences`, by segment and term, where they are.
    """
    ranking = _Ranking(segments, occurrences)
    for phrases, times in asked.items():
        ranking.ask(dict(phrases), times)
    return ranking.result()


class _Ranking:
    """The scores of a collection's documents for words and phrases that are asked one by one."""

    def __init__(self, segments: Sequence[StoredSegment], occurrences: Mapping[tuple[int, str], Numbers]) -> None:
        self._segments = segments
        self._occurrences = occurrences
        self._documents = sum(segment.documents for segment in segments)
        self._mean_words = sum(segment.words for segment in segments) / max(1, self._documents)
        self._scores: dict[int, Scores] = {}

    def ask(self, phrases: Mapping[str, Sequence[str]], times: int) -> None:
        """Add the score of a phrase to the documents that have it, as often as the question says it."""
        found = [(segment, *self._frequencies(segment, phrases[segment.language])) for segment in self._segments]
        having = sum(len(owners) for _, owners, _ in found)
        weight = times * max(LEAST_WEIGHT, math.log((self._documents - having + 0.5) / (having + 0.5)))
        for segment, owners, frequency in found:
            if len(owners):
                if segment.number not in self._scores:
                    self._scores[segment.number] = np.zeros(len(segment.layout.positions))
                norm = K1 * (1 - B + B * segment.layout.words[owners] / self._mean_words)
                self._scores[segment.number][owners] += weight * frequency * (K1 + 1) / (frequency + norm)

    def result(self) -> tuple[Places, Scores]:
        positions, scores = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        for segment in self._segments:
            if segment.number in self._scores:
                found = np.flatnonzero(self._scores[segment.number])
                positions.append(segment.layout.positions[found])
                scores.append(self._scores[segment.number][found])
        return np.concatenate(positions), np.concatenate(scores)

    def _frequencies(self, segment: StoredSegment, phrase: Sequence[str]) -> tuple[Places, Scores]:
        """Return (documents of the segment that have the phrase, the sum of its occurrences' weights in each)."""
        found = self._occurrences.get((segment.number, phrase[0]), NOWHERE)
        for further, word in enumerate(phrase[1:], start=1):
            if not len(found):
                break
            found = found[_among(found + np.uint32(further), self._occurrences.get((segment.number, word), NOWHERE))]
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


def occurring(segments: Sequence[StoredSegment], occurrences: Mapping[tuple[int, str], Numbers]) -> set[str]:
    """Return the terms that a document of these segments has; where some of a segment's are not alive, one that is."""
    of_number = {segment.number: segment for segment in segments}
    return {
        term
        for (number, term), places in occurrences.items()
        if len(places) and (segment := of_number.get(number)) is not None and _has_living(segment, places)
    }


def _has_living(segment: StoredSegment, places: Numbers) -> bool:
    return segment.alive is None or bool(segment.alive[field_of(segment.layout, places) // FIELDS].any())


def terms_of(asked: Iterable[Phrases]) -> list[tuple[str, str]]:
    """Return the terms of words and phrases, each once with its language."""
    return list(dict.fromkeys((language, term) for phrases in asked for language, phrase in phrases for term in phrase))


def stored_occurrences(
    transaction: Transaction, segments: Sequence[StoredSegment], terms: Sequence[tuple[str, str]]
) -> Occurrences:
    """Return the occurrences of terms in segments by segment and term; a term that occurs nowhere is missing.

    A single letter of a script without spaces occurs wherever a word begins with it.
    """
    found: Occurrences = {}
    for number, term, block in blocks_of(transaction, segments, terms):
        found[number, term] = occurrences_in(block, term)
    for language, term in terms:
        if is_letter(term):
            for segment in segments:
                if segment.language == language:
                    found[segment.number, term] = occurrences_beginning(transaction, segment.number, term)
    return found


def _among(wanted: Numbers, ascending: Numbers) -> Mask:
    if not len(ascending):
        return np.zeros(len(wanted), dtype=np.bool_)
    places = np.searchsorted(ascending, wanted)
    found: Mask = ascending[np.minimum(places, len(ascending) - 1)] == wanted
    return found
