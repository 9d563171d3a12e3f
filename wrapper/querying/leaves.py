"""The leaves of a collection: documents that lie near each other, most of which a query can pass over at once.

A leaf has a centre, and each of its documents a spread: its distance from the centre. By the triangle inequality, what
a query has to do with the centre says which spreads a document must have at least to be near enough. The documents of a
leaf are in the order of their spreads, so what may be near is the end of it. Where documents lie in groups, as those of
one subject do, few are left; where they do not, all are, and the work was little.

Everything is as seen from the reference of the collection's codes (`wrapper/querying/codes.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wrapper.querying.codes import Codes, Doubles, Encoder, Floats, QueryCode, Rows, empty_arrays, multiply, size_bytes

LEAST_DOCUMENTS = 16_384
"""Of fewer documents all codes are compared in half a millisecond."""
MOST_LEAVES, LEAST_OF_LEAF = 1_024, 64
TRAINED = 20_000
"""The most vectors from which centres are made."""
STEPS = 4
"""The steps of Lloyd's algorithm."""
ASSIGNED_AT_ONCE = 4_096
FEW_LEAVES = 16
"""So many of the nearest leaves mostly have all documents that are compared first."""
ABOVE = np.float32(1 + 1e-6)
"""What spreads are multiplied by, so that float32 makes none of them smaller."""


@dataclass(frozen=True, eq=False)
class Leaves:
    """centres: (m, dimension); bounds: (m + 1,), a leaf's rows are from its bound to the next; spreads: (n,)."""

    centres: Floats
    bounds: NDArray[np.int64]
    spreads: Floats

    def __len__(self) -> int:
        return len(self.centres)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.bounds)

    @cached_property
    def _squares(self) -> Doubles:
        squares: Doubles = np.einsum("ij,ij->i", self.centres, self.centres, dtype=np.float64)
        return squares

    @cached_property
    def _largest(self) -> Floats:
        """The largest spread of each leaf, -inf for an empty one."""
        last = self.spreads[np.maximum(self.bounds[1:] - 1, 0)]
        return np.where(self.sizes > 0, last, np.float32(-np.inf))

    def with_spread(self, least: Doubles, but: Rows) -> Rows:
        """Return the leaves, `but` those, with a document whose spread is at least that of its leaf."""
        have = self._largest >= least
        have[but] = False
        return np.flatnonzero(have)

    def first_with_spread(self, leaf: int, least: float) -> int:
        """Return the first row of a leaf whose spread is at least that."""
        start, end = self.bounds[leaf : leaf + 2].tolist()
        return int(start + np.searchsorted(self.spreads[start:end], least))

    @cached_property
    def _codes(self) -> Codes:
        """The codes of the centres, of which a query reads a quarter of the bytes."""
        reference = np.zeros(self.centres.shape[1])
        encoder = Encoder("ip", reference, *empty_arrays(*self.centres.shape))
        encoder.add(slice(None), self.centres)
        return encoder.codes()

    def _most_products(self, vector: Doubles) -> Doubles:
        """Return what the product of each centre with a vector (dimension,) is at most, but for rounding."""
        code = self._codes.of_query(vector)
        if code is None:
            return (self.centres @ vector.astype(np.float32)).astype(np.float64)
        nearness, margins = self._codes.estimated(code, multiply(self._codes.codes, [code.code])[0])
        return nearness.astype(np.float64) + margins

    def seen_by(self, query: QueryCode, metric: str, reference: Doubles, slack: float) -> LeavesSeen | None:
        """Return what a query has to do with the centres; None for one without a direction, to which all are alike.
        `slack` is what rounding may change."""
        if metric == "l2":
            products = self._most_products(query.difference)
            square = query.length**2
            distances = np.sqrt(np.maximum(0.0, square - 2 * products + self._squares - 2 * slack))
            return LeavesSeen(self, -distances, square, by_distance=True)
        whole = query.difference + reference
        square = float(whole @ whole)
        if square <= slack**2:
            return None
        products = self._most_products(whole)
        return LeavesSeen(self, products + float(reference @ reference) + slack, square, by_distance=False)


@dataclass(frozen=True, slots=True, eq=False)
class LeavesSeen:
    """How near the centres of leaves are to a query, (m,); the greater the nearer. square: of the query's length.
    by_distance: whether nearness is the negative distance, not the product."""

    leaves: Leaves
    nearness: Doubles
    square: float
    by_distance: bool

    def first(self, count: int) -> Rows:
        """Return the leaves that are nearest, with `count` documents at least or all."""
        few = min(len(self.leaves), FEW_LEAVES)
        nearest = np.argpartition(self.nearness, -few)[-few:]
        if self.leaves.sizes[nearest].sum() < count:
            nearest = np.arange(len(self.leaves))
        order = nearest[np.argsort(-self.nearness[nearest])]
        taken = np.cumsum(self.leaves.sizes[order])
        return order[: int(np.searchsorted(taken, count)) + 1]

    def least_spreads(self, nearness: float) -> Doubles:
        """Return for each leaf the least spread with which a document of it can have this nearness."""
        if self.by_distance:
            return -self.nearness - np.sqrt(max(0.0, self.square - 2 * nearness))
        return (nearness - self.nearness) / np.sqrt(self.square)


def most_bytes(count: int, dimension: int) -> int:
    """Return what the centres of so many documents take, with their codes, and the parts of a file that are longer than
    they need be."""
    if count < LEAST_DOCUMENTS:
        return 0
    wanted = min(MOST_LEAVES, count // LEAST_OF_LEAF)
    return wanted * (4 * dimension + 8) + size_bytes(wanted, dimension) + 8_192


def train(vectors: Floats, count: int) -> Floats:
    """Return centres for the leaves of `count` documents, of which some vectors (m, dimension) are given."""
    wanted = min(MOST_LEAVES, count // LEAST_OF_LEAF, len(vectors))
    chosen = np.random.default_rng(0).choice(len(vectors), wanted, replace=False)
    centres: Floats = vectors[np.sort(chosen)].copy()
    for _ in range(STEPS):
        leaf_of = assigned(centres, vectors)
        order = np.argsort(leaf_of, kind="stable")
        filled, starts, sizes = np.unique(leaf_of[order], return_index=True, return_counts=True)
        centres[filled] = np.add.reduceat(vectors[order], starts, axis=0) / sizes[:, np.newaxis]
    return centres


def assigned(centres: Floats, vectors: Floats) -> NDArray[np.int32]:
    """Return the leaf of each vector (n,): the one whose centre is nearest."""
    halves = np.einsum("ij,ij->i", centres, centres) / 2
    found = np.empty(len(vectors), dtype=np.int32)
    for start in range(0, len(vectors), ASSIGNED_AT_ONCE):
        part = slice(start, start + ASSIGNED_AT_ONCE)
        found[part] = np.argmax(vectors[part] @ centres.T - halves, axis=1)
    return found


def spreads_of(centres: Floats, leaf_of: NDArray[np.int32], differences: Doubles) -> Floats:
    """Return the distance (n,) of each vector from the centre of its leaf, never less than it is."""
    apart = differences - centres[leaf_of]
    spreads = np.sqrt(np.einsum("ij,ij->i", apart, apart))
    return spreads.astype(np.float32) * ABOVE
