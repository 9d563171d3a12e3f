"""Vectors as codes: less than half of their size, and how far from the truth a comparison of them can be.

A vector is kept as a code of one byte for each component: vector = reference + step * code + rest, where the reference
is the middle of the collection, and the length of the rest is known. By the Cauchy-Schwarz inequality, the product of a
query with the rest is at most the product of their lengths. So codes tell with certainty which documents cannot be
among the nearest. Of the others, half a byte more for each component tells the same about the rest: rest = step/14 *
fine code + a rest of the rest. The exact distances of the few that are left decide.

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
from wrapper.distances import vectors_at_once

LARGEST_CODE = 127
LARGEST_FINE_CODE = 7
FINER = 2 * LARGEST_FINE_CODE
"""The fine steps in a step. The rest is at most half a step."""
FLOATS = 5
"""The numbers of four bytes that each vector has beside its codes."""
MOST_REFINED = 16_384
"""Of so many documents fine codes are compared."""
ROUGHNESS = 1e-5
"""The difference that computing in float32 may make, relative to the size of the numbers, which is far below."""
LONGEST_SQUARE = 1e37
"""Products of longer vectors may exceed float32."""
SMALLEST = 1e-30
"""Below it, float32 has not all its digits."""

Bytes = NDArray[np.int8]
Nibbles = NDArray[np.uint8]
"""Two fine codes in a byte."""
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class QueryCode:
    """A query as seen from the reference: difference (dimension,) = step * code (dimension,) + rest.

    length: of the difference; square: of the query's own length.
    """

    difference: Doubles
    code: Bytes
    step: float
    length: float
    rest_length: float
    square: float


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """The codes of n vectors.

    codes: (n, dimension); fine: (n, dimension / 2); all others (n,). rest_lengths: without fine codes;
    fine_rest_lengths: with them; code_lengths: of step * code; offsets: what nearness has beside the product.
    largest_square: of the vectors' lengths.
    """

    metric: str
    reference: Doubles
    codes: Bytes
    fine: Nibbles
    steps: Floats
    rest_lengths: Floats
    fine_rest_lengths: Floats
    code_lengths: Floats
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
        length, rest_length = float(np.linalg.norm(difference)), float(np.linalg.norm(rest))
        return QueryCode(difference, code, float(step), length, rest_length, float(square))

    def nearest(self, query: QueryCode, products: Floats, top_k: int, rows: Rows | None = None) -> Rows:
        """Return the rows that can be among the `top_k` nearest, of `rows` if given. Their `products` with the query's
        code are given, and used up.

        Equal vectors are all among them or none.
        """
        every = slice(None) if rows is None else rows
        products *= np.float32(query.step)
        products *= self.steps[every]
        products += self.offsets[every]
        margins = np.float32(query.length) * self.rest_lengths[every]
        margins += np.float32(query.rest_length) * self.code_lengths[every]
        found = self._possible(query, products, margins, top_k)
        found = found if rows is None else rows[found]
        return found if len(found) > MOST_REFINED else self._nearest_of(query, found, top_k)

    def _nearest_of(self, query: QueryCode, found: Rows, top_k: int) -> Rows:
        """Return what `nearest` does of few rows: their fine codes are unpacked, and the query is not rounded."""
        nearness = np.empty(len(found), dtype=np.float32)
        dimension = self.codes.shape[1]
        block = vectors_at_once(dimension)
        for first in range(0, len(found), block):
            rows = found[first : first + block]
            # In float32, the product of long vectors can be wrong by more than ROUGHNESS.
            codes = self.codes[rows] + _unpacked(self.fine[rows], dimension) / FINER
            nearness[first : first + block] = codes @ query.difference
        nearness *= self.steps[found]
        nearness += self.offsets[found]
        return found[self._possible(query, nearness, np.float32(query.length) * self.fine_rest_lengths[found], top_k)]

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
        dimension = some.shape[1]
        self._codes = np.empty((count, dimension), dtype=np.int8)
        self._fine = np.empty((count, _fine_bytes(dimension)), dtype=np.uint8)
        self._steps, self._rest_lengths, self._fine_rest_lengths, self._code_lengths, self._offsets = np.empty(
            (FLOATS, count), dtype=np.float32
        )
        self._largest_square = 0.0

    def add(self, rows: Rows, vectors: Vector) -> bool:
        """Encode vectors (m, dimension) in these rows. Returns False when one is too long to have one."""
        seen, squares = _measured(vectors, self._metric)
        self._largest_square = max(self._largest_square, float(squares.max(initial=0.0)))
        if self._largest_square >= LONGEST_SQUARE:
            return False
        differences = seen - self._reference
        codes, steps, rests = _encoded(differences)
        fine = np.rint(rests * (FINER / steps[:, np.newaxis]))
        self._codes[rows], self._fine[rows], self._steps[rows] = codes, _packed(fine), steps
        self._rest_lengths[rows] = np.sqrt(_squares(rests))
        self._fine_rest_lengths[rows] = np.sqrt(_squares(rests - fine * (steps[:, np.newaxis] / FINER)))
        self._code_lengths[rows] = steps * np.sqrt(_squares(codes))
        self._offsets[rows] = -_squares(differences) / 2 if self._metric == "l2" else seen @ self._reference
        return True

    def finish(self) -> Codes:
        return Codes(
            metric=self._metric,
            reference=self._reference,
            codes=self._codes,
            fine=self._fine,
            steps=self._steps,
            rest_lengths=self._rest_lengths,
            fine_rest_lengths=self._fine_rest_lengths,
            code_lengths=self._code_lengths,
            offsets=self._offsets,
            largest_square=self._largest_square,
        )


def size_bytes(count: int, dimension: int) -> int:
    """Return the memory that the codes of so many vectors take."""
    return count * (dimension + _fine_bytes(dimension) + 4 * FLOATS)


def multiply(codes: Bytes, queries: Sequence[Bytes]) -> list[Floats]:
    """Return the products (n,) of codes (n, dimension) with each of the queries' codes (dimension,)."""
    if len(queries) == 1:
        return [np.asarray(numkong.cdist(queries[0][np.newaxis], codes, "dot", out_dtype="float32"))[0]]
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
    """Return (codes (n, dimension), steps (n,), rests (n, dimension)) of differences from the reference."""
    peaks = np.abs(differences).max(axis=1, initial=0.0)
    steps = np.where(peaks > SMALLEST, peaks / LARGEST_CODE, 1.0)
    codes = np.rint(differences / steps[:, np.newaxis])
    return codes.astype(np.int8), steps, differences - codes * steps[:, np.newaxis]


def _fine_bytes(dimension: int) -> int:
    return (dimension + 1) // 2


def _packed(fine: Doubles) -> Nibbles:
    """Return fine codes (n, dimension), two in a byte."""
    nibbles = np.zeros((len(fine), 2 * _fine_bytes(fine.shape[1])), dtype=np.uint8)
    nibbles[:, : fine.shape[1]] = fine + (LARGEST_FINE_CODE + 1)
    return nibbles[:, 0::2] * np.uint8(16) + nibbles[:, 1::2]


def _unpacked(fine: Nibbles, dimension: int) -> Doubles:
    """Return packed fine codes as numbers (n, dimension)."""
    nibbles = np.stack([fine >> 4, fine & 15], axis=2).reshape(len(fine), -1)[:, :dimension]
    return nibbles.astype(np.float64) - (LARGEST_FINE_CODE + 1)


def _squares(vectors: NDArray[np.floating] | Bytes) -> Doubles:
    squares: Doubles = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    return squares
