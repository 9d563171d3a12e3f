"""Vectors as bytes: a quarter of their size, and how far from the truth a comparison of them can be.

A vector is kept as a code of one byte for each component: vector = reference + step * code + rest, where the reference
is the middle of the collection, and the length of the rest is known. By the Cauchy-Schwarz inequality, the product of a
query with the rest is at most the product of their lengths. So codes tell with certainty which documents cannot be
among the nearest; the exact distances of the few others decide.

With x the query and r the vector, both as seen from the reference m, nearness is, the greater the nearer,

    l2: x·r - |r|²/2        ip: x·r + m·(m + r)        cosine: as ip, of vectors of length 1

which is the negative distance but for a factor and what is the same for all documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numkong
import numpy as np
from numpy.typing import NDArray

from schemas.records import Vector

LARGEST_CODE = 127
ROUGHNESS = 1e-5
"""The difference that computing in float32 may make, relative to the size of the numbers, which is far below."""
LONGEST_SQUARE = 1e37
"""Products of longer vectors may exceed float32."""
SMALLEST = 1e-30
"""Below it, float32 has not all its digits."""

Bytes = NDArray[np.int8]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class QueryCode:
    """A query as seen from the reference: difference (dimension,) = step * code (dimension,) + rest.

    length and rest: the lengths of the difference and of the rest; square: of the query's own length.
    """

    difference: Floats
    code: Bytes
    step: float
    length: float
    rest: float
    square: float


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """The codes of n vectors.

    codes: (n, dimension); steps, the lengths of `rests` and of coded parts (step * code), and what nearness has beside
    the product (offsets): (n,). largest_square: of the vectors' lengths.
    """

    metric: str
    reference: Doubles
    codes: Bytes
    steps: Floats
    rests: Floats
    lengths: Floats
    offsets: Floats
    largest_square: float

    @property
    def nbytes(self) -> int:
        return size_bytes(*self.codes.shape)

    def of_query(self, query: Vector) -> QueryCode | None:
        """Return the code of a query (dimension,), None for one that is too long to be compared by its code."""
        [seen], [square] = _measured(query[np.newaxis], self.metric)
        if square >= LONGEST_SQUARE:
            return None
        difference = seen - self.reference
        [code], [step], [rest] = _encoded(difference[np.newaxis])
        length = float(np.linalg.norm(difference))
        return QueryCode(difference.astype(np.float32), code, float(step), length, float(rest), float(square))

    def nearest(self, query: QueryCode, products: Floats, top_k: int, rows: Rows | None = None) -> Rows:
        """Return the rows that can be among the `top_k` nearest, of `rows` if given. Their `products` with the query's
        code are given, and used up.

        Equal vectors are all among them or none.
        """
        every = slice(None) if rows is None else rows
        products *= np.float32(query.step)
        products *= self.steps[every]
        products += self.offsets[every]
        margins = np.float32(query.length) * self.rests[every]
        margins += np.float32(query.rest) * self.lengths[every]
        found = self._possible(query, products, margins, top_k)
        found = found if rows is None else rows[found]
        # The query need not be rounded to a code where few documents are left.
        products = (self.codes[found].astype(np.float32) @ query.difference) * self.steps[found] + self.offsets[found]
        return found[self._possible(query, products, np.float32(query.length) * self.rests[found], top_k)]

    def _possible(self, query: QueryCode, nearness: Floats, margins: Floats, top_k: int) -> Rows:
        """Return what can be among the `top_k` with the greatest nearness, which is known but for the margins."""
        if len(nearness) <= top_k:
            return np.arange(len(nearness))
        surely = np.partition(nearness - margins, -top_k)[-top_k]
        size = self.largest_square + query.square + (0.0 if self.metric == "l2" else 1.0)
        return np.flatnonzero(nearness + margins >= surely - ROUGHNESS * size - SMALLEST)


class Encoder:
    """Makes the codes of `count` vectors, block by block. `some` of them (m, dimension) tell the reference."""

    def __init__(self, metric: str, some: Vector, count: int) -> None:
        self._metric = metric
        self._reference: Doubles = _measured(some, metric)[0].mean(axis=0)
        self._codes = np.empty((count, some.shape[1]), dtype=np.int8)
        self._steps, self._rests, self._lengths, self._offsets = np.empty((4, count), dtype=np.float32)
        self._largest_square = 0.0

    def add(self, rows: Rows, vectors: Vector) -> bool:
        """Encode vectors (m, dimension) in these rows. Returns False when one is too long to have one."""
        seen, squares = _measured(vectors, self._metric)
        self._largest_square = max(self._largest_square, float(squares.max(initial=0.0)))
        if self._largest_square >= LONGEST_SQUARE:
            return False
        differences = seen - self._reference
        codes, steps, self._rests[rows] = _encoded(differences)
        self._codes[rows], self._steps[rows] = codes, steps
        self._lengths[rows] = steps * np.sqrt(_squares(codes))
        self._offsets[rows] = -_squares(differences) / 2 if self._metric == "l2" else seen @ self._reference
        return True

    def finish(self) -> Codes:
        return Codes(
            metric=self._metric,
            reference=self._reference,
            codes=self._codes,
            steps=self._steps,
            rests=self._rests,
            lengths=self._lengths,
            offsets=self._offsets,
            largest_square=self._largest_square,
        )


def size_bytes(count: int, dimension: int) -> int:
    """Return the memory that the codes of so many vectors take."""
    return count * (dimension + 4 * 4)


def multiply(codes: Bytes, queries: Sequence[Bytes]) -> list[Floats]:
    """Return the products (n,) of codes (n, dimension) with each of the queries' codes (dimension,)."""
    if len(queries) == 1:
        return [np.asarray(numkong.cdist(queries[0][np.newaxis], codes, "dot"))[0].astype(np.float32)]
    together = np.asarray(numkong.dots_packed(codes, numkong.dots_pack(np.stack(queries), dtype="int8")))
    return list(together.T.astype(np.float32, order="C"))


def _measured(vectors: Vector, metric: str) -> tuple[Doubles, Doubles]:
    """Return (vectors, the squares of their lengths), both as the metric sees them: cosine knows no length but zero."""
    precise = vectors.astype(np.float64)
    squares = _squares(precise)
    if metric != "cosine":
        return precise, squares
    lengths = np.sqrt(squares)
    np.divide(precise, lengths[:, np.newaxis], out=precise, where=lengths[:, np.newaxis] > 0)
    return precise, np.sign(squares)


def _encoded(differences: Doubles) -> tuple[Bytes, Doubles, Doubles]:
    """Return (codes (n, dimension), steps (n,), lengths of the rests (n,)) of differences from the reference."""
    peaks = np.abs(differences).max(axis=1, initial=0.0)
    steps = np.where(peaks > SMALLEST, peaks / LARGEST_CODE, 1.0)
    codes = np.rint(differences / steps[:, np.newaxis])
    rests = differences - codes * steps[:, np.newaxis]
    return codes.astype(np.int8), steps, np.sqrt(_squares(rests))


def _squares(vectors: NDArray[np.floating] | Bytes) -> Doubles:
    squares: Doubles = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    return squares
