"""Exact distances, in the one definition that every plan of a vector query shares.

cosine: 1 - cos, 1.0 when either vector is zero; l2: the squared Euclidean distance; ip: 1 - dot product. These are
the engine's own definitions. Ranking runs in float32; what is answered is computed once more in float64, row by
row, so that a document's distance depends neither on the plan that found it nor on the documents beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.records import Vector

EQUAL_DISTANCE = 1e-5
"""The index and we round differently: what differs by less is equally far."""


def rough_distances(query: Vector, vectors: Vector, metric: str) -> NDArray[np.float32]:
    """float32 distances (n,) of n vectors (n, dimension), for ranking."""
    return _distances(query, vectors, metric, np.matmul).astype(np.float32, copy=False)


def exact_distances(query: Vector, vectors: Vector, metric: str) -> NDArray[np.float64]:
    """float64 distances (n,), for answers."""
    precise = _distances(query.astype(np.float64), vectors.astype(np.float64), metric, _products_by_row)
    return precise.astype(np.float64, copy=False)


def _products_by_row(vectors: NDArray[np.floating], query: NDArray[np.floating]) -> NDArray[np.floating]:
    """What a matrix product gives too, but that rounds a row differently depending on where it stands."""
    products: NDArray[np.floating] = np.einsum("ij,j->i", vectors, query)
    return products


def _distances(
    query: NDArray[np.floating], vectors: NDArray[np.floating], metric: str, multiply: Callable[..., Any]
) -> NDArray[np.floating]:
    # Components near the float32 limit overflow when multiplied: the distance is then infinite, which ranks last.
    with np.errstate(over="ignore", invalid="ignore"):
        if metric == "l2":
            difference = vectors - query
            result = np.einsum("ij,ij->i", difference, difference)
        elif metric == "ip":
            result = 1.0 - multiply(vectors, query)
        else:
            norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors)) * np.sqrt(query @ query)
            products = multiply(vectors, query)
            result = 1.0 - np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    return np.nan_to_num(result, nan=np.inf, posinf=np.inf, neginf=-np.inf)
