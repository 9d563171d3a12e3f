"""The documents of the growth benchmark: document n is the same, however many there are in the end."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.data import CENTROIDS, NOISE, SECTION, SEED, TIE, TOP_K, VOCABULARY, Query, Vectors, section_id

BLOCK = 10_000
WORDS_PER_TEXT = 15
COMMON = "everywhere"
FACETS = ("source", "language", "half", "chunk_index")
# Multiples of these, modulo 1, lie evenly in [0, 1) from the first on, so that a range has its share of any number.
SPREAD, HALVES = 0.6180339887498949, 0.41421356237309515


class GrowingCorpus:
    """`count` documents with clustered unit vectors and short texts, which are quick to add.

    Fields: `section_id` (10 documents in a row), `chunk_index`, `source` (100 of them), `language`, `half` (0 or 1) and
    `spread` (even in [0, 1)). Each text has a word that only its section has, and every second one has `COMMON`.
    """

    def __init__(self, count: int, dimension: int, queries: int) -> None:
        self.count = count
        generator = np.random.default_rng(SEED)
        self._centroids = generator.normal(size=(CENTROIDS, dimension))
        self._vocabulary = _vocabulary()
        self.embeddings: Vectors = np.empty((count, dimension), dtype=np.float32)
        for start in range(0, count, BLOCK):
            points = self._points([SEED, start], BLOCK)
            self.embeddings[start : start + BLOCK] = points[: count - start]
        halves = random.Random(SEED)
        self.queries = [Query(point, {"half": halves.randrange(2)}) for point in self._points([SEED, 1 << 40], queries)]

    def ids(self, part: Sequence[int]) -> list[str]:
        return [f"document-{n}" for n in part]

    def texts(self, part: Sequence[int]) -> list[str]:
        return [" ".join(self._words(n)) for n in part]

    def metadatas(self, part: Sequence[int]) -> list[dict[str, Any]]:
        return [
            {
                "section_id": section_id(n // SECTION),
                "chunk_index": n % SECTION,
                "source": f"source-{n % 100}.md",
                "language": "en" if n % 3 else "de",
                "half": int(2 * (n * HALVES % 1.0)),
                "spread": n * SPREAD % 1.0,
            }
            for n in part
        ]

    def some_words(self, generator: random.Random, count: int) -> str:
        """Return words each of which is in some 0.3 % of the texts."""
        return " ".join(generator.choices(self._vocabulary, k=count))

    def matching(self, count: int, size: int, generator: random.Random) -> list[dict[str, Any]]:
        """Return two conditions that `count` of the first `size` documents meet, give or take a few."""
        width = count / size
        start = generator.random() * (1.0 - width)
        return [{"spread": {"$gte": start}}, {"spread": {"$lt": start + width}}]

    def in_share(self, share: float, size: int) -> list[int]:
        """Return the documents of the first `size` whose `spread` is below `share`."""
        return [n for n in range(size) if n * SPREAD % 1.0 < share]

    def sections_near(self, query: Query, size: int) -> list[str]:
        """Return the sections of the `TOP_K` nearest of the first `size` documents, each once."""
        nearest = np.argpartition(self.embeddings[:size] @ query.embedding, -TOP_K)[-TOP_K:]
        return sorted({section_id(int(place) // SECTION) for place in nearest})

    def recall(self, queries: Sequence[Query], found: Iterable[Sequence[str]], size: int, half: bool) -> float:
        """Return the share of the `TOP_K` nearest of the first `size` documents that the answers have, one for each
        query; with `half`, of those of the query's half."""
        halves = (2 * (np.arange(size) * HALVES % 1.0)).astype(int)
        hits = 0
        for query, ids in zip(queries, found, strict=True):
            similarities = self.embeddings[:size] @ query.embedding
            if half:
                similarities[halves != query.filters["half"]] = -np.inf
            limit = np.partition(similarities, -TOP_K)[-TOP_K] - TIE
            places = {int(each.removeprefix("document-")) for each in ids}
            hits += sum(1 for place in places if place < size and similarities[place] >= limit)
        return hits / (TOP_K * len(queries))

    def _points(self, seed: list[int], count: int) -> Vectors:
        generator = np.random.default_rng(seed)
        cluster = generator.integers(0, CENTROIDS, count)
        rows = self._centroids[cluster] + NOISE * generator.normal(size=(count, self._centroids.shape[1]))
        points: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return points

    def _words(self, n: int) -> Iterator[str]:
        yield from random.Random(SEED + n).choices(self._vocabulary, k=WORDS_PER_TEXT)
        yield rare_word(n // SECTION)
        if n % 2:
            yield COMMON


def rare_word(section: int) -> str:
    """Return the word that only the texts of a section have."""
    return f"section{section}"


def _vocabulary() -> list[str]:
    words = random.Random(SEED)
    return ["".join(words.choices("abcdefghijklmnopqrstuvwxyz", k=words.randint(3, 9))) for _ in range(VOCABULARY)]
