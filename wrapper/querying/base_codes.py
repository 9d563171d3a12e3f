"""The codes of a whole collection at a revision, and how they are made from its vectors in the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.records import Collection, Vector
from schemas.where import EVERYTHING
from wrapper.catalog import reads
from wrapper.catalog.contract import Transaction
from wrapper.querying import leaves
from wrapper.querying.codes import Codes, Encoder, Rows, differences_from, empty_arrays, reference_of, size_bytes
from wrapper.querying.leaves import Leaves

SAMPLED = 1_024
"""The most vectors, spread over the collection, whose middle is the reference of the codes."""
SAMPLED_COMPONENTS = 8_000_000
"""The most components of vectors that are sampled: 32 MB."""
COLUMNS_AT_ONCE = 64
"""Of so many columns a copy is made in another order: a line of the processor's cache."""

FINDING_BYTES = 8
"""The most memory that finding rows by positions takes in a process, for each document."""

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BaseCodes:
    """The codes of a collection at a revision, in the order of its leaves; the documents' positions (n,), and
    by_position (n,), the rows in the order of positions. `path` is that of its file, None where only this process has
    them."""

    revision: int
    positions: Positions
    by_position: NDArray[np.int32]
    codes: Codes
    leaves: Leaves
    path: Path | None = None
    has_its_length: Callable[[], bool] = lambda: True
    """Tells whether the file is as long as it was. The system ends a process that reads behind the end of one."""
    is_whole: Callable[[], bool] = lambda: True
    """Compares what is mapped with its checksum, which takes a second for each gigabyte."""

    @property
    def nbytes(self) -> int:
        leaves = self.leaves.centres.nbytes + size_bytes(*self.leaves.centres.shape) + self.leaves.spreads.nbytes
        places = FINDING_BYTES * len(self.positions)
        return self.codes.nbytes + self.positions.nbytes + self.by_position.nbytes + leaves + places

    def rows_of(self, positions: Positions) -> Rows:
        """Return the rows of documents, given by their positions; -1 for one that is not among them."""
        if not len(self.positions):
            return np.full(len(positions), -1, dtype=np.intp)
        first, table = self._row_of
        if table is not None:
            offsets = positions - first
            is_inside = (offsets >= 0) & (offsets < len(table))
            rows = np.full(len(positions), -1, dtype=np.intp)
            rows[is_inside] = table[offsets[is_inside]]
            return rows
        places = np.minimum(np.searchsorted(self._sorted, positions), len(self._sorted) - 1)
        rows = self.by_position[places].astype(np.intp)
        rows[self._sorted[places] != positions] = -1
        return rows

    @cached_property
    def _row_of(self) -> tuple[int, NDArray[np.int32] | None]:
        """The first position, and the rows of it and of all numbers up to the last one, -1 for one without a document.
        None where they would take more than `_sorted`."""
        first, last = int(self.positions[self.by_position[0]]), int(self.positions[self.by_position[-1]])
        if 4 * (last - first + 1) > FINDING_BYTES * len(self.positions):
            return first, None
        table = np.full(last - first + 1, -1, dtype=np.int32)
        table[self.positions - first] = np.arange(len(self.positions), dtype=np.int32)
        return first, table

    @cached_property
    def _sorted(self) -> Positions:
        """The positions in ascending order."""
        return self.positions[self.by_position]


def encoded(transaction: Transaction, collection: Collection, is_closing: Callable[[], bool]) -> BaseCodes | None:
    """Return the codes of a collection at the transaction's revision, None when `is_closing` before they are made."""
    assert collection.dimension is not None
    positions = np.sort(reads.all_positions(transaction, collection, EVERYTHING))
    count, dimension = len(positions), collection.dimension
    reference = reference_of(collection.metric, _spread(transaction, collection, positions, SAMPLED))
    encoder = Encoder(collection.metric, reference, *empty_arrays(count, dimension))
    centres = np.empty((0, dimension), dtype=np.float32)
    if count >= leaves.LEAST_DOCUMENTS:
        some = _spread(transaction, collection, positions, leaves.TRAINED)
        seen = differences_from(reference, some, collection.metric).astype(np.float32)
        centres = leaves.train(seen[np.isfinite(seen).all(axis=1)], count)
    leaf_of, spreads = np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.float32)
    for block, vectors in reads.vectors(transaction, collection, EVERYTHING):
        if is_closing():
            return None
        rows = np.searchsorted(positions, block)
        encoder.add(rows, vectors)
        if len(centres):
            differences = differences_from(reference, vectors, collection.metric)
            with np.errstate(invalid="ignore"):
                leaf_of[rows] = leaves.assigned(centres, differences.astype(np.float32))
            spreads[rows] = leaves.spreads_of(centres, leaf_of[rows], differences)
    if not len(centres):
        bounds = np.zeros(1, dtype=np.int64)
        none = Leaves(centres, bounds, np.empty(0, dtype=np.float32))
        return BaseCodes(collection.revision, positions, np.arange(count, dtype=np.int32), encoder.codes(), none)
    order = np.lexsort((spreads, leaf_of))
    by_position = np.empty(count, dtype=np.int32)
    by_position[order] = np.arange(count, dtype=np.int32)
    bounds = np.searchsorted(leaf_of[order], np.arange(len(centres) + 1))
    found = Leaves(centres, bounds.astype(np.int64), spreads[order])
    return BaseCodes(collection.revision, positions[order], by_position, _ordered(encoder.codes(), order), found)


def _spread(transaction: Transaction, collection: Collection, positions: Positions, most: int) -> Vector:
    """Return the vectors of some documents, spread over the collection, and of fewer when they are long."""
    most = min(most, max(1, SAMPLED_COMPONENTS // (collection.dimension or 1)))
    some = positions[:: -(-len(positions) // most)]
    return reads.vectors_at(transaction, collection, some.tolist())[1]


def _ordered(codes: Codes, order: Rows) -> Codes:
    """Return codes in another order, without a second copy of all of them."""
    for each in (codes.codes, codes.fine, *codes.numbers):
        _reorder(each, order)
    return codes


def _reorder(array: NDArray[Any], order: Rows) -> None:
    columns = array if array.ndim == 2 else array[:, np.newaxis]
    for first in range(0, columns.shape[1], COLUMNS_AT_ONCE):
        part = columns[:, first : first + COLUMNS_AT_ONCE]
        part[...] = part[order]
