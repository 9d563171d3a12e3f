"""Synthetic documents for the benchmarks: the same for every run of the same size, with known nearest neighbours."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

SEED = 20261121
CENTROIDS, NOISE = 512, 0.6
SECTION, TEN, THOUSAND = 10, 10, 1_000
TOP_K = 10
WORDS_PER_TEXT, VOCABULARY = 150, 5_000
# Two documents whose similarities differ by less count as equal for recall: float32 cannot tell them apart.
TIE = 1e-6

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Query:
    """A query: a unit vector from the documents' clusters, and the value of each filter that goes with it."""

    embedding: Vectors
    filters: Mapping[str, Any]


class Documents(Protocol):
    """Documents by their numbers."""

    embeddings: Vectors

    def ids(self, part: Sequence[int]) -> list[str]: ...
    def texts(self, part: Sequence[int]) -> list[str]: ...
    def metadatas(self, part: Sequence[int]) -> list[dict[str, Any]]: ...


class Corpus:
    """`count` documents of about 1 KB of random words and seven metadata fields, with clustered unit vectors.

    Fields: `section_id` (10 documents in a row), `chunk_index`, `source` (100 of them), `language`, and three whose
    values are spread evenly and at random: `ten` (10 documents a value), `thou` (1,000 a value), `half` (0 or 1).
    Corpora of different `name` share no ids and no sections.
    """

    def __init__(
        self, count: int, dimension: int, queries: int, *, name: str = "", words_per_text: int = WORDS_PER_TEXT
    ) -> None:
        generator = np.random.default_rng([SEED, *name.encode()])
        self.count = count
        self._name = name
        self._words_per_text = words_per_text
        centroids = generator.normal(size=(CENTROIDS, dimension))
        cluster = generator.integers(0, CENTROIDS, count + queries)
        points = np.empty((count + queries, dimension), dtype=np.float32)
        for start in range(0, len(points), 10_000):
            part = slice(start, start + 10_000)
            noise = generator.normal(size=(len(cluster[part]), dimension))
            rows = centroids[cluster[part]] + NOISE * noise
            points[part] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self.embeddings: Vectors = points[:count]
        self.fields: dict[str, NDArray[np.int64]] = {
            "ten": generator.permutation(count) // TEN,
            "thou": generator.permutation(count) // THOUSAND,
            "half": generator.permutation(count) % 2,
        }
        words = random.Random(SEED)
        self._vocabulary = [
            "".join(words.choices("abcdefghijklmnopqrstuvwxyz", k=words.randint(3, 9))) for _ in range(VOCABULARY)
        ]
        self.queries = [
            Query(
                points[count + n],
                {name: int(values[generator.integers(count)]) for name, values in self.fields.items()},
            )
            for n in range(queries)
        ]

    @property
    def sections(self) -> int:
        return -(-self.count // SECTION)

    def ids(self, part: Sequence[int]) -> list[str]:
        return [f"{self._name}document-{n}" for n in part]

    def texts(self, part: Sequence[int]) -> list[str]:
        return [" ".join(random.Random(SEED + n).choices(self._vocabulary, k=self._words_per_text)) for n in part]

    def metadatas(self, part: Sequence[int]) -> list[dict[str, Any]]:
        return [
            {
                "section_id": self._name + section_id(n // SECTION),
                "chunk_index": n % SECTION,
                "source": f"source-{n % 100}.md",
                "language": "en" if n % 3 else "de",
                **{name: int(values[n]) for name, values in self.fields.items()},
            }
            for n in part
        ]

    def sections_near(self, query: Query) -> list[str]:
        """Return the sections of the `TOP_K` nearest documents, each once."""
        nearest = np.argpartition(self.embeddings @ query.embedding, -TOP_K)[-TOP_K:]
        return sorted({self._name + section_id(int(place) // SECTION) for place in nearest})

    def recall(self, query: Query, field: str | None, found: Sequence[str]) -> float:
        """Return the share of the `TOP_K` nearest matches that is among `found`.

        It is 0 for an answer that names a document twice or one that does not match.
        """
        places = [int(name.removeprefix("document-")) for name in found]
        matching = np.ones(self.count, bool) if field is None else self.fields[field] == query.filters[field]
        if len(set(places)) != len(places) or not all(matching[place] for place in places):
            return 0.0
        similarities = np.where(matching, self.embeddings @ query.embedding, -np.inf)
        wanted = min(TOP_K, int(matching.sum()))
        limit = np.partition(similarities, -wanted)[-wanted] - TIE
        return int(np.count_nonzero(similarities[places[:wanted]] >= limit)) / wanted


def section_id(number: int) -> str:
    return f"section-{number}"
