"""Sets of vectors that a graph of near neighbours gets wrong, made from a fixed seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating]
SEED = 20261122


def line_and_corners(count: int, dimension: int) -> tuple[Matrix, Matrix]:
    """Make points along a line, and four far corners written in between. Of the 24 queries, 4 are the corners."""
    generator = np.random.default_rng(SEED)
    axes = np.linalg.qr(generator.normal(size=(dimension, 6)))[0].T
    points = axes[0] + np.linspace(-0.5, 0.5, count)[:, None] * axes[1]
    points += generator.normal(size=points.shape) * 1e-4
    corners = np.linspace(count // 5, count - 1, 4).astype(int)
    points[corners] = axes[2:6]
    return points, np.concatenate([_beside(generator, points, generator.integers(0, count, 20)), axes[2:6]])


def common_mean(count: int, dimension: int) -> tuple[Matrix, Matrix]:
    """Make vectors with a common mean and a spectrum that decays, like the embeddings of sentences."""
    generator = np.random.default_rng(SEED)
    spectrum = 1.0 / np.sqrt(np.arange(1, dimension + 1))
    mean = generator.normal(size=dimension)
    mean *= np.linalg.norm(spectrum) / np.linalg.norm(mean)
    points = mean + generator.normal(size=(count + 40, dimension)) * spectrum
    return points[:count], points[count:]


def many_equal(count: int, dimension: int) -> tuple[Matrix, Matrix]:
    """Make vectors of which nine in ten are one of five; the others are all different."""
    generator = np.random.default_rng(SEED)
    points = generator.normal(size=(count, dimension))
    equal = generator.random(count) < 0.9
    points[equal] = generator.normal(size=(5, dimension))[generator.integers(0, 5, int(equal.sum()))]
    different = generator.choice(np.flatnonzero(~equal), 20)
    return points, np.concatenate([points[np.flatnonzero(equal)[:20]], _beside(generator, points, different)])


def tight_clusters(count: int, dimension: int) -> tuple[Matrix, Matrix]:
    """Make narrow clusters of forty at wide angles, written one after the other."""
    generator = np.random.default_rng(SEED)
    clusters = np.repeat(np.arange(-(-count // 40)), 40)[:count]
    points = generator.normal(size=(clusters[-1] + 1, dimension))[clusters]
    points += generator.normal(size=points.shape) * 0.15
    return points, _beside(generator, points, generator.integers(0, count, 40))


def far_cone(count: int, dimension: int) -> tuple[Matrix, Matrix]:
    """Make a dense cluster, and a narrow cone far from it that is written last; most queries are about the cone."""
    generator = np.random.default_rng(SEED)
    dense, far = generator.normal(size=(2, dimension))
    cone = count // 8
    points = dense + generator.normal(size=(count, dimension)) * 0.001
    points[-cone:] = far + generator.normal(size=(cone, dimension)) * 0.15
    return points, _beside(generator, points, np.linspace(count - cone - 5, count - 1, 40).astype(int))


SETS: dict[str, Callable[[int, int], tuple[Matrix, Matrix]]] = {
    "line and corners": line_and_corners,
    "common mean": common_mean,
    "many equal": many_equal,
    "tight clusters": tight_clusters,
    "far cone": far_cone,
}


def vector_set(name: str, count: int, dimension: int) -> tuple[Matrix, Matrix]:
    """Return float32 vectors (count, dimension) in the order of writing, and float32 queries (n, dimension)."""
    points, queries = SETS[name](count, dimension)
    return points.astype(np.float32), queries.astype(np.float32)


def _beside(generator: np.random.Generator, points: Matrix, places: NDArray[np.integer]) -> Matrix:
    near = points[places]
    return near + generator.normal(size=near.shape) * 1e-3 * np.linalg.norm(near, axis=1, keepdims=True)
