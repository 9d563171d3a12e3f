"""Exact distances, in the one definition that every plan of a vector query shares.

cosine: 1 - cos, 1.0 when either vector is zero; l2: the squared Euclidean distance; ip: 1 - dot product. These are the
engine's own definitions. The distances of an answer are computed in float64, row by row, so that a document's distance
depends neither on the plan that found it nor on the documents beside it. Which documents need it, float32 tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.records import Vector
from schemas.scores import DIGITS, rounded

EQUAL_DISTANCE = 1e-5
"""The index rounds differently: documents whose distances differ by less are equally far."""
LEAST_SQUARE, LARGEST_SQUARE = 1e-24, 1e30
"""Squares and products of float32 numbers have all their digits in between."""

COMPONENTS_AT_ONCE = 100_000
"""Of so many components of vectors copies are made at a time, which then fit in the processor's caches."""

Numbers = NDArray[np.floating]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]


def vectors_at_once(dimension: int) -> int:
    """Return of how many vectors copies are made at a time, so that memory is bounded whatever their dimension."""
    return max(1, COMPONENTS_AT_ONCE // dimension)


def exact_distances(query: Vector, vectors: Vector, metric: str) -> NDArray[np.float64]:
    """Return float64 distances (n,) for answers, rounded as `schemas/scores.py` says.

    They are compared, with each other and with a maximum, in the form in which they are answered.
    """
    precise = _distances(query.astype(np.float64), vectors.astype(np.float64), metric, _products_by_row)
    return np.fromiter((rounded(each, metric) for each in precise.tolist()), np.float64, len(precise))


def possible_nearest(query: Vector, vectors: Vector, metric: str, top_k: int) -> Rows:
    """Return the rows of vectors (n, dimension) that can be among the `top_k` nearest by `exact_distances`.

    Those that are as near as the last of them are among the rows.
    """
    if len(vectors) <= top_k:
        return np.arange(len(vectors))
    rows = _possible_nearest(query, vectors, metric, top_k)
    if rows is None:
        rows = _possible_nearest(query.astype(np.float64), vectors.astype(np.float64), metric, top_k)
    assert rows is not None  # float64 has the range for the products of all float32 numbers
    return rows


def possible_within(queries: Vector, vectors: Vector, metric: str, farthest: NDArray[np.float64]) -> Mask:
    """Return (queries, n) which vectors (n, dimension) can be as near to each query (queries, dimension) as the
    distance `farthest` (queries,) by `exact_distances`: mostly few, found by one product of matrices."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares, own = _squares(vectors), _squares(queries)
        least = min(float(squares.min()), float(own.min()))
        largest = max(float(squares.max()), float(own.max()))
    if not (largest <= LARGEST_SQUARE and (metric == "ip" or least >= LEAST_SQUARE)):
        return np.ones((len(queries), len(vectors)), dtype=np.bool_)
    size = {"l2": 2 * largest, "ip": 1.0 + largest}.get(metric, 1.0)
    distances = _rough(queries @ vectors.T, squares, own, metric)
    return distances <= farthest[:, np.newaxis] + 2 * _error(queries) * size


def rough_distances(queries: Vector, vectors: Vector, metric: str) -> Numbers:
    """Return the distances (queries, n) in float32, by one product of matrices; 0 where that has not the range."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        distances = _rough(queries @ vectors.T, _squares(vectors), _squares(queries), metric)
    return np.where(np.isfinite(distances), distances, 0.0)


def _rough(products: Numbers, squares: Numbers, own: Numbers, metric: str) -> Numbers:
    if metric == "l2":
        return squares + own[:, np.newaxis] - 2 * products
    if metric == "ip":
        return 1.0 - products
    return 1.0 - products / (np.sqrt(squares) * np.sqrt(own)[:, np.newaxis])


def _squares(vectors: Numbers) -> Numbers:
    squares: Numbers = np.einsum("ij,ij->i", vectors, vectors)
    return squares


def _possible_nearest(query: Numbers, vectors: Numbers, metric: str, top_k: int) -> Rows | None:
    """Return the same, computed in the precision of the numbers, or None where float32 has not the range for it."""
    distances = _distances(query, vectors, metric, np.matmul)
    farthest = float(np.partition(distances, top_k - 1)[top_k - 1])
    size, in_range = farthest, LEAST_SQUARE <= farthest <= LARGEST_SQUARE
    if metric != "l2":
        with np.errstate(over="ignore", under="ignore"):
            squares = np.einsum("ij,ij->i", vectors, vectors)
            least, largest, own = float(squares.min()), float(squares.max()), float(query @ query)
        size = 1.0 if metric == "cosine" else 1.0 + math.sqrt(largest) * math.sqrt(own)
        in_range = max(largest, own) <= LARGEST_SQUARE and (metric == "ip" or min(least, own) >= LEAST_SQUARE)
    if vectors.dtype == np.float32 and not in_range:
        return None
    return np.flatnonzero(distances <= farthest + 2 * _error(vectors) * size)


def _error(vectors: Numbers) -> float:
    """Return by how much a distance may be wrong, in shares of the size of what it is computed from.

    A sum of n products is wrong by at most n units in the last place of the sum of their sizes; answers are rounded.
    """
    return vectors.shape[1] * float(np.finfo(vectors.dtype).eps) + 10.0 ** (1 - DIGITS)


def _cosine(query: Numbers, products: Numbers, squares: Numbers) -> Numbers:
    norms = np.sqrt(squares) * np.sqrt(query @ query)
    return 1.0 - np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)


def _products_by_row(vectors: Numbers, query: Numbers) -> Numbers:
    """Return the products row by row: a matrix product rounds a row differently depending on where it stands."""
    products: Numbers = np.einsum("ij,j->i", vectors, query)
    return products


def _distances(query: Numbers, vectors: Numbers, metric: str, multiply: Callable[..., Any]) -> Numbers:
    # Products of float32 numbers may overflow: `possible_nearest` sees it, and all that is left can be compared.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if metric == "l2":
            difference = vectors - query
            result = np.einsum("ij,ij->i", difference, difference)
        elif metric == "ip":
            result = 1.0 - multiply(vectors, query)
        else:
            result = _cosine(query, multiply(vectors, query), np.einsum("ij,ij->i", vectors, vectors))
    return result if np.isfinite(result).all() else np.nan_to_num(result, nan=np.inf, posinf=np.inf, neginf=-np.inf)
