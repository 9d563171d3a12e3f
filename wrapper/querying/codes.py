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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numkong
import numpy as np
from numpy.typing import NDArray

from schemas.records import Vector
from wrapper.distances import vectors_at_once

LARGEST_CODE = 127
LARGEST_FINE_CODE = 7
FINER = 2 * LARGEST_FINE_CODE
"""The fine steps in a step. The rest is at most half a step."""
STEPS, REST_LENGTHS, FINE_REST_LENGTHS, CODE_LENGTHS, OFFSETS = range(5)
"""The numbers that each vector has beside its codes: the step; the lengths of the rest without fine codes and with
them, and of step * code; and what nearness has beside the product."""
FLOATS = 5
ROUGHNESS = 1e-5
"""The difference that computing in float32 may make, relative to the size of the numbers, which is far below."""
LONGEST_SQUARE = 1e37
"""Products of longer vectors may exceed float32."""
SMALLEST = 1e-30
"""Below it, float32 has not all its digits."""

Bytes = NDArray[np.int8]
Nibbles = NDArray[np.uint8]
"""Two fine codes in a byte, the first in its upper half."""
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Rows = NDArray[np.intp]

FINE_PARTS: Doubles = (np.stack([np.arange(256) >> 4, np.arange(256) & 15], axis=1) - (LARGEST_FINE_CODE + 1)) / FINER
"""The two fine codes of each byte (256, 2), in steps of the codes."""


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

    codes: (n, dimension); fine: (n, dimension / 2); numbers: (5, n), in the order of `STEPS` to `OFFSETS`.
    largest_square: of the vectors' lengths. A vector that is too long to be compared has lengths of rests without end.
    """

    metric: str
    reference: Doubles
    codes: Bytes
    fine: Nibbles
    numbers: Floats
    largest_square: float

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        return size_bytes(*self.codes.shape)

    def of_query(self, query: Vector | Doubles) -> QueryCode | None:
        """Return the code of a query (dimension,), None for one that is too long to be compared by its code."""
        # As `_measured` and `_encoded` do it with many, in a third of the time.
        seen = query.astype(np.float64)
        square = float(seen @ seen)
        if self.metric == "cosine" and square > 0:
            seen /= math.sqrt(square)
            square = 1.0
        if square >= LONGEST_SQUARE:
            return None
        difference = seen - self.reference
        peak = float(np.abs(difference).max(initial=0.0))
        step = peak / LARGEST_CODE if peak > SMALLEST else 1.0
        code = np.rint(difference / step)
        rest = difference - code * step
        # A length of 0 would leave nothing of rests without end.
        length, rest_length = max(math.sqrt(difference @ difference), SMALLEST), math.sqrt(rest @ rest)
        return QueryCode(difference, code.astype(np.int8), step, length, rest_length, square)

    def estimated(self, query: QueryCode, products: Floats, rows: Rows | None = None) -> Estimates:
        """Return the estimates of all rows, or of `rows`, from their `products` with the query's code, which are used
        up."""
        numbers = self.numbers if rows is None else self.numbers.take(rows, axis=1)
        products *= np.float32(query.step)
        products *= numbers[STEPS]
        products += numbers[OFFSETS]
        with np.errstate(over="ignore"):
            margins = np.float32(query.length) * numbers[REST_LENGTHS]
        margins += np.float32(query.rest_length) * numbers[CODE_LENGTHS]
        return Estimates(products, margins)

    def refined(self, query: QueryCode, found: Rows) -> Estimates:
        """Return the estimates of few rows by their fine codes; the query is not rounded."""
        nearness = np.empty(len(found), dtype=np.float32)
        dimension = self.codes.shape[1]
        block = vectors_at_once(dimension)
        for first in range(0, len(found), block):
            rows = found[first : first + block]
            # In float32, the product of long vectors can be wrong by more than ROUGHNESS.
            codes = FINE_PARTS.take(self.fine.take(rows, axis=0), axis=0).reshape(len(rows), -1)[:, :dimension]
            codes += self.codes.take(rows, axis=0)
            nearness[first : first + block] = codes @ query.difference
        numbers = self.numbers.take(found, axis=1)
        nearness *= numbers[STEPS]
        nearness += numbers[OFFSETS]
        with np.errstate(over="ignore"):
            return Estimates(nearness, np.float32(query.length) * numbers[FINE_REST_LENGTHS])

    def slack(self, query: QueryCode) -> float:
        """Return by how much rounding in float32 may change a nearness."""
        return ROUGHNESS * (self.largest_square + query.square + (0.0 if self.metric == "l2" else 1.0)) + SMALLEST


class Estimates(NamedTuple):
    """The nearness of some documents, which is known but for the margins: both (n,)."""

    nearness: Floats
    margins: Floats

    def possible(self, top_k: int, slack: float) -> Rows:
        """Return what can be among the `top_k` nearest of all. Equals are all among it or none. Documents whose
        nearness is -inf are not there."""
        nearness, margins = self
        if len(nearness) <= top_k:
            return np.flatnonzero(nearness > -np.inf)
        surely = np.partition(nearness - margins, -top_k)[-top_k]
        with np.errstate(invalid="ignore"):  # of one that is not there, whose margin has no end
            found = np.flatnonzero(nearness + margins >= surely - np.float32(slack))
        return found if surely > -np.inf else found[nearness[found] > -np.inf]


class Encoder:
    """Makes the codes of vectors, block by block, in arrays of the shapes that `Codes` names."""

    def __init__(self, metric: str, reference: Doubles, codes: Bytes, fine: Nibbles, numbers: Floats) -> None:
        self._metric = metric
        self._reference = reference
        self._codes, self._fine, self._numbers = codes, fine, numbers
        self._largest_square = 0.0

    def add(self, rows: Rows | slice, vectors: Vector) -> None:
        """Encode vectors (m, dimension) in these rows."""
        seen, squares = _measured(vectors, self._metric)
        too_long = squares >= LONGEST_SQUARE
        seen[too_long] = self._reference
        self._largest_square = max(self._largest_square, float(squares[~too_long].max(initial=0.0)))
        differences = seen - self._reference
        codes, steps, rests = _encoded(differences)
        fine = np.rint(rests * (FINER / steps[:, np.newaxis]))
        rest_lengths = np.sqrt(_squares(rests))
        fine_rest_lengths = np.sqrt(_squares(rests - fine * (steps[:, np.newaxis] / FINER)))
        rest_lengths[too_long] = fine_rest_lengths[too_long] = np.inf
        self._codes[rows], self._fine[rows] = codes, _packed(fine)
        self._numbers[STEPS, rows] = steps
        self._numbers[REST_LENGTHS, rows] = rest_lengths
        self._numbers[FINE_REST_LENGTHS, rows] = fine_rest_lengths
        self._numbers[CODE_LENGTHS, rows] = steps * np.sqrt(_squares(codes))
        self._numbers[OFFSETS, rows] = -_squares(differences) / 2 if self._metric == "l2" else seen @ self._reference

    @property
    def nbytes(self) -> int:
        return self._codes.nbytes + self._fine.nbytes + self._numbers.nbytes

    def take(self, codes: Codes) -> None:
        """Take over codes of the same reference into the first rows."""
        some = slice(len(codes))
        self._codes[some], self._fine[some], self._numbers[:, some] = codes.codes, codes.fine, codes.numbers
        self._largest_square = codes.largest_square

    def codes(self, count: int | None = None) -> Codes:
        """Return the codes of the first rows, or of all."""
        some = slice(count)
        return Codes(
            metric=self._metric,
            reference=self._reference,
            codes=self._codes[some],
            fine=self._fine[some],
            numbers=self._numbers[:, some],
            largest_square=self._largest_square,
        )


def reference_of(metric: str, some: Vector) -> Doubles:
    """Return the middle of some vectors (m, dimension) of a collection, which is the reference of its codes."""
    seen, squares = _measured(some, metric)
    seen = seen[squares < LONGEST_SQUARE]
    middle: Doubles = seen.mean(axis=0) if len(seen) else np.zeros(some.shape[1])
    return middle


def differences_from(reference: Doubles, vectors: Vector, metric: str) -> Doubles:
    """Return vectors (m, dimension) as seen from the reference; what is too long to be compared is infinitely far."""
    seen, squares = _measured(vectors, metric)
    seen -= reference
    seen[squares >= LONGEST_SQUARE] = np.inf
    return seen


def empty_arrays(count: int, dimension: int) -> tuple[Bytes, Nibbles, Floats]:
    """Return arrays for the codes of so many vectors: codes, fine and numbers."""
    return (
        np.empty((count, dimension), dtype=np.int8),
        np.empty((count, fine_bytes(dimension)), dtype=np.uint8),
        np.empty((FLOATS, count), dtype=np.float32),
    )


def size_bytes(count: int, dimension: int) -> int:
    """Return the memory that the codes of so many vectors take."""
    return count * (dimension + fine_bytes(dimension) + 4 * FLOATS)


def multiply(codes: Bytes, queries: Sequence[Bytes]) -> list[Floats]:
    """Return the products (n,) of codes (n, dimension) with each of the queries' codes (dimension,)."""
    if not len(codes):  # which NumKong refuses
        return [np.empty(0, dtype=np.float32) for _ in queries]
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


def fine_bytes(dimension: int) -> int:
    return (dimension + 1) // 2


def _packed(fine: Doubles) -> Nibbles:
    """Return fine codes (n, dimension), two in a byte."""
    nibbles = np.zeros((len(fine), 2 * fine_bytes(fine.shape[1])), dtype=np.uint8)
    nibbles[:, : fine.shape[1]] = fine + (LARGEST_FINE_CODE + 1)
    return nibbles[:, 0::2] * np.uint8(16) + nibbles[:, 1::2]


def _squares(vectors: NDArray[np.floating] | Bytes) -> Doubles:
    squares: Doubles = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    return squares
