"""Projections of collections into a plane, for maps: documents that are near each other lie near each other.

Where they lie is computed once for a revision and a filter and kept in memory; a projection of fewer points shows some
of the same ones in the same places.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from cachetools import LRUCache, cachedmethod
from numpy.typing import NDArray

from schemas.records import Collection
from schemas.storage.projection import MAX_POINTS, Colouring, Projection
from schemas.where import Where
from wrapper.catalog import grouping, reads
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.filters import digest_of
from wrapper.catalog.rows import find_collection
from wrapper.querying.principal_axes import principal_axes

AXES_BYTES = 16 << 20
"""The vectors from which the axes are computed: 10,922 of 384 dimensions, 2,730 of 1,536. More of them hardly turn the
axes, and take memory."""
KEPT_BYTES = 16 << 20
OVERHEAD_BYTES = 1_024
"""What a kept projection takes besides its arrays."""
"""About fifty projections of 20,000 points."""
BLOCK = 1_024

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """positions: of documents, rising; places: where they are, (n, 2)."""

    total: int
    positions: Positions
    places: NDArray[np.float32]
    explained: tuple[float, float]

    @property
    def nbytes(self) -> int:
        return self.positions.nbytes + self.places.nbytes + OVERHEAD_BYTES


class Projections:
    """The projections of a process. Several threads can use it: those that ask for the same one compute it once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._kept: LRUCache[tuple[int, int, str], _Places] = LRUCache(KEPT_BYTES, getsizeof=lambda kept: kept.nbytes)
        self._condition = threading.Condition()

    def of(self, name: str, where: Where, *, limit: int, field: str | None) -> Projection:
        """Return the points of at most `limit` of the documents that match, spread over the collection.

        Raises CollectionNotFoundError.
        """
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            found = self._places(transaction, collection, where)
            shown = _spread(len(found.positions), limit)
            ids, values = grouping.values_at(transaction, collection, found.positions[shown].tolist(), field)
        colouring = None if field is None else Colouring.of(field, values)
        return Projection(collection, found.total, ids, found.places[shown], found.explained, colouring)

    @cachedmethod(
        lambda self: self._kept,
        key=lambda self, transaction, collection, where: (collection.key, collection.revision, digest_of(where)),
        condition=lambda self: self._condition,
    )
    def _places(self, transaction: Transaction, collection: Collection, where: Where) -> _Places:
        matching = np.sort(reads.all_positions(transaction, collection, where))
        positions = matching[_spread(len(matching), MAX_POINTS)]
        places = np.zeros((len(positions), 2), dtype=np.float32)
        if not len(positions) or collection.dimension is None:
            return _Places(len(matching), positions, places, (0.0, 0.0))
        for_axes = positions[_spread(len(positions), max(2, AXES_BYTES // (4 * collection.dimension)))]
        vectors = np.empty((len(for_axes), collection.dimension), dtype=np.float32)
        for part, block in _blocks(transaction, collection, for_axes):
            vectors[part] = block
        axes = principal_axes(vectors)
        for part, block in _blocks(transaction, collection, positions):
            places[part] = axes.places_of(block)
        lowest, highest = places.min(axis=0), places.max(axis=0)
        places -= (lowest + highest) / 2
        places /= (highest - lowest).max() / 2 or 1.0
        return _Places(len(matching), positions, places, axes.explained)


def _blocks(
    transaction: Transaction, collection: Collection, positions: Positions
) -> Iterator[tuple[Positions, NDArray[np.float32]]]:
    """Yield (rows, vectors) of the documents at these positions, block by block."""
    for start in range(0, len(positions), BLOCK):
        found, vectors = reads.vectors_at(transaction, collection, positions[start : start + BLOCK].tolist())
        yield np.searchsorted(positions, found), vectors


def _spread(count: int, limit: int) -> Positions:
    """Return at most `limit` of the numbers below `count`, evenly spread."""
    shown = min(count, limit)
    return np.arange(shown, dtype=np.int64) * count // max(1, shown)
