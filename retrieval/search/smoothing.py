"""Neighbour smoothing: what is like the best candidates is better than its own score says.

A document that is relevant is like other relevant ones. So each candidate takes over a part of the scores of those that
it is most like, which brings forward what several good candidates agree with, and holds back what stands alone
([measured](docs/quality.md)). It works on scores; sums of reciprocal ranks are too flat for it.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from schemas.records import Vector
from schemas.words.splitting import split
from schemas.words.stop_words import STOP_WORDS

SMOOTHED = 100
"""The number of candidates that are smoothed, the best ones."""
NEIGHBOURS = 10
SHARE = 0.4
"""The share of a smoothed score that comes from the neighbours (λ). nDCG changes little from 0.3 to 0.6."""
K1, B = 1.2, 0.75
MOST_NUMBER = 0x7FFF_FFFF
CACHED_CHARACTERS = 16 << 20
"""The most characters of texts whose words are kept, which take about twice as many bytes."""

Scores = NDArray[np.float64]
Similarities = NDArray[np.float32]


def smoothed(scores: Sequence[float], similar: Similarities) -> Scores:
    """Return the smoothed scores of candidates: (1 - λ) of its own score, and λ of the mean of those of its nearest
    neighbours, weighted by how similar they are.

    `similar` has shape (n, n). Those that are as similar as the last of the nearest are neighbours, too. A candidate
    that is like no other keeps its own score.
    """
    own = np.asarray(scores, dtype=np.float64)
    count = len(own)
    if count < 2:
        return own
    likeness = similar.astype(np.float64)
    np.fill_diagonal(likeness, -np.inf)
    last = count - min(NEIGHBOURS, count - 1)
    least = np.maximum(np.partition(likeness, last, axis=1)[:, last, None], 0.0)
    weights = np.where(likeness >= least, likeness, 0.0)
    sums = weights.sum(axis=1)
    means = np.divide(weights @ own, sums, out=own.copy(), where=sums > 0)
    return (1.0 - SHARE) * own + SHARE * means


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors, 0 for one without a direction."""
    lengths = math.sqrt(float(one @ one)) * math.sqrt(float(other @ other))
    return float(one @ other) / lengths if lengths else 0.0


def cosines(vectors: Sequence[Vector]) -> Similarities:
    """Return the cosines between vectors of one dimension, shape (n, n); 0 for a vector without a direction."""
    rows = np.stack(vectors).astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    directions = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    products: Similarities = directions @ directions.T
    return products


class WordSimilarity:
    """The similarity of texts by their words, usable by several threads.

    The words of texts are kept for the next question: the same texts are candidates again and again.
    """

    def __init__(self, cached_characters: int = CACHED_CHARACTERS) -> None:
        known: LRUCache[Any, _Words] = LRUCache(cached_characters, getsizeof=lambda words: words.characters)
        self._words = cached(known, lock=threading.Lock())(_words_of)

    def of(self, texts: Sequence[str]) -> Similarities:
        """Return the cosines between the texts as vectors of BM25 weights, shape (n, n), in [0, 1].

        How rare a word is, is counted among these texts.
        """
        found = [self._words(text) for text in texts]
        lengths = np.array([words.length for words in found], dtype=np.float32)
        numbers = np.concatenate([words.numbers for words in found])
        counts = np.concatenate([words.counts for words in found])
        owners = np.repeat(np.arange(len(found)), [len(words.numbers) for words in found])
        column, having = _columns(numbers)
        rarity = np.log1p((len(found) - having + 0.5) / (having + 0.5)).astype(np.float32)
        norm = K1 * (1 - B + B * lengths / max(1.0, float(lengths.mean())))
        weights = counts * (K1 + 1) / (counts + norm[owners]) * rarity[column]
        sizes = np.sqrt(np.bincount(owners, weights**2, len(found)))[:, None].astype(np.float32)
        # Words of one text alone, which most are, make it longer but like no other.
        shared = having > 1
        places = np.cumsum(shared) - 1
        both = shared[column]
        matrix = np.zeros((len(found), int(shared.sum())), dtype=np.float32)
        matrix.reshape(-1)[owners[both] * matrix.shape[1] + places[column[both]]] = weights[both]
        matrix = np.divide(matrix, sizes, out=matrix, where=sizes > 0)
        similar: Similarities = matrix @ matrix.T
        np.fill_diagonal(similar, sizes > 0)
        return similar


def _columns(numbers: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (a column for each number, the same for equal ones; how often the number of each column occurs).

    It is `numpy.unique` without what is not needed here, in half the time.
    """
    order = np.argsort(numbers)
    ascending = numbers[order]
    columns = np.empty(len(numbers), dtype=np.int64)
    columns[order] = np.cumsum(np.concatenate([[0], ascending[1:] != ascending[:-1]]))[: len(numbers)]
    return columns, np.bincount(columns)


class _Words:
    """The words of a text that mean something: a number for each, which is the same in all texts of this process, and
    how often it occurs."""

    __slots__ = ("characters", "counts", "length", "numbers")

    def __init__(self, text: str) -> None:
        counted = Counter(word for word in split(text) if word not in STOP_WORDS["en"])
        self.numbers = np.fromiter((hash(word) & MOST_NUMBER for word in counted), dtype=np.int32, count=len(counted))
        self.counts = np.fromiter(counted.values(), dtype=np.float32, count=len(counted))
        self.length = int(self.counts.sum())
        self.characters = len(text) + 1


def _words_of(text: str) -> _Words:
    return _Words(text)
