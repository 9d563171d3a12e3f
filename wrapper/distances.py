"""Exact distances, in the one definition that every plan of a vector query shares.

cosine: 1 - cos, 1.0 when either vector is zero; l2: the squared Euclidean distance; ip: 1 - dot product. These are the
engine's own definitions. Ranking runs in float32; the distances of an answer are computed once more in float64, row by
row, so that a document's distance depends neither on the plan that found it nor on the documents beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.records import Vector
from schemas.scores import rounded

EQUAL_DISTANCE = 1e-5
"""The index rounds differently: documents whose distances differ by less are equally far."""


def rough_distances(query: Vector, vectors: Vector, metric: str) -> NDArray[np.float32]:
    """Return float32 distances (n,) of n vectors (n, dimension), for ranking."""
    return _distances(query, vectors, metric, np.matmul).astype(np.float32, copy=False)


def exact_distances(query: Vector, vectors: Vector, metric: str) -> NDArray[np.float64]:
    """Return float64 distances (n,) for answers, rounded as `schemas/scores.py` says.

    They are compared, with each other and with a maximum, in the form in which they are answered.
    """
    precise = _distances(query.astype(np.float64), vectors.astype(np.float64), metric, _products_by_row)
    return np.fromiter((rounded(each, metric) for each in precise.tolist()), np.float64, len(precise))


def _cosine(
    query: NDArray[np.floating], products: NDArray[np.floating], squares: NDArray[np.floating]
) -> NDArray[np.floating]:
    norms = np.sqrt(squares) * np.sqrt(query @ query)
    return 1.0 - np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)


def _products_by_row(vectors: NDArray[np.floating], query: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the products row by row: a matrix product rounds a row differently depending on where it stands."""
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
            result = _cosine(query, multiply(vectors, query), np.einsum("ij,ij->i", vectors, vectors))
    return np.nan_to_num(result, nan=np.inf, posinf=np.inf, neginf=-np.inf)
