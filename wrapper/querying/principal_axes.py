"""Principal components: the two directions in which vectors differ most.

Other projections (t-SNE, UMAP) draw neighbourhoods apart more clearly, but their packages bring compilers or several
hundred megabytes, take a minute for what this does in a second, and place the same vectors elsewhere each time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.records import Vector

AXES = 2
BLOCK, STEPS = 8, 6
INDEPENDENT = 1e-4
"""The least square of the part of a direction that others do not have."""
ROWS = 1_024
ROUNDING = 1e-7
"""Differences between float32 vectors that are smaller, relative to their largest component, mean nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class PrincipalAxes:
    """mean: float64 (dimension,); axes: float32 (dimension, 2), zero where there is nothing to see; explained: the
    share of the variance along each."""

    mean: NDArray[np.float64]
    spread: float
    axes: NDArray[np.float32]
    explained: tuple[float, float]

    def places_of(self, vectors: Vector) -> NDArray[np.float32]:
        """Return where vectors (n, dimension) are on the axes, (n, 2)."""
        places: NDArray[np.float32] = _centred(vectors, self.mean, self.spread) @ self.axes
        return places


def principal_axes(vectors: Vector) -> PrincipalAxes:
    """Return the principal axes of vectors (n, dimension), n at least 1.

    Which end of an axis is which is a matter of chance in the mathematics; here the largest component is positive.
    """
    dimension = vectors.shape[1]
    mean = vectors.mean(axis=0, dtype=np.float64)
    spread = float(np.maximum(vectors.max(axis=0) - mean, mean - vectors.min(axis=0)).max())
    axes = np.zeros((dimension, AXES), dtype=np.float32)
    if spread <= ROUNDING * float(np.abs(vectors).max(initial=0.0)):
        return PrincipalAxes(mean, 1.0, axes, (0.0, 0.0))
    centred = _centred(vectors, mean, spread)
    basis = _promising(centred)
    seen = (centred @ basis).astype(np.float64)
    values, directions = np.linalg.eigh(seen.T @ seen)
    total = float(np.square(centred).sum(dtype=np.float64))
    explained = [0.0, 0.0]
    for number in range(min(AXES, dimension)):
        value = float(values[-1 - number])
        if value <= ROUNDING * total:
            break
        axis = basis @ directions[:, -1 - number]
        axes[:, number] = axis * np.sign(axis[np.abs(axis).argmax()])
        explained[number] = min(1.0, value / total)
    return PrincipalAxes(mean, spread, axes, (explained[0], explained[1]))


def _promising(centred: Vector) -> Vector:
    """Return directions (dimension, at most 48), orthonormal, in whose span the principal axes are.

    It is a block Krylov subspace (Musco and Musco, 2015). The eigenvectors of all components would cost thousands of
    small products, each shared by the threads of NumPy: on a busy machine these wait seconds for each other.
    """
    dimension = centred.shape[1]
    if dimension <= BLOCK * STEPS:
        return np.eye(dimension, dtype=np.float32)
    block = np.random.default_rng(0).standard_normal((dimension, BLOCK), dtype=np.float32)
    blocks = []
    for _ in range(STEPS):
        block = np.linalg.qr(centred.T @ (centred @ block))[0]
        blocks.append(block)
    found = np.hstack(blocks)
    values, directions = np.linalg.eigh((found.T @ found).astype(np.float64))
    independent = values > INDEPENDENT
    basis: Vector = found @ (directions[:, independent] / np.sqrt(values[independent])).astype(np.float32)
    return basis


def _centred(vectors: Vector, mean: NDArray[np.float64], spread: float) -> Vector:
    # In float64, so that neither large components overflow nor vectors that are nearly equal differ by rounding.
    centred: Vector = np.empty(vectors.shape, dtype=np.float32)
    for start in range(0, len(vectors), ROWS):
        centred[start : start + ROWS] = (vectors[start : start + ROWS] - mean) / spread
    return centred
