"""Makes the codes of a whole collection from its vectors in the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.records import Collection, Vector
from schemas.where import EVERYTHING
from wrapper.catalog import reads
from wrapper.catalog.contract import Transaction
from wrapper.querying import leaves
from wrapper.querying.code_files import BaseCodes, Positions
from wrapper.querying.codes import Codes, Encoder, Rows, differences_from, empty_arrays, reference_of
from wrapper.querying.leaves import Leaves

SAMPLED = 1_024
"""The most vectors, spread over the collection, whose middle is the reference of the codes."""
SAMPLED_COMPONENTS = 8_000_000
"""The most components of vectors that are sampled: 32 MB."""
COLUMNS_AT_ONCE = 64
"""Of so many columns a copy is made in another order: a line of the processor's cache."""


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
