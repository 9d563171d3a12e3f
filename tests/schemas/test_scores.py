"""Distances and scores without the rounding errors of their computation."""

import math

import numpy as np
import pytest

from schemas.records import METRICS
from schemas.scores import rounded, score
from wrapper.distances import exact_distances


@pytest.mark.parametrize(
    ("distance", "metric", "said"),
    [
        (-0.0, "cosine", "0.0"),
        (5.55e-16, "cosine", "0.0"),
        (-2.2e-16, "cosine", "0.0"),
        (2.2e-16, "ip", "0.0"),
        (0.30000000000000004, "cosine", "0.3"),
        (1.9999999999999998, "cosine", "2.0"),
        (1e-20, "l2", "1e-20"),
        (-0.0, "l2", "0.0"),
        (0.30000000000000004, "l2", "0.3"),
        (math.inf, "l2", "inf"),
        (-1e300, "ip", "-1e+300"),
    ],
)
def test_a_distance_has_twelve_digits(distance, metric, said):
    assert repr(rounded(distance, metric)) == said


@pytest.mark.parametrize(
    ("distance", "metric", "said"),
    [(0.0, "cosine", 1.0), (0.3, "cosine", 0.85), (0.0, "l2", 1.0), (2.0, "l2", 0.333333333333), (1.0, "ip", 0.5)],
)
def test_a_score_has_twelve_digits(distance, metric, said):
    assert score(distance, metric) == said


@pytest.mark.parametrize("metric", METRICS)
def test_rounding_changes_no_order(metric):
    random = np.random.default_rng(7)
    vectors, query = random.normal(size=(500, 32)).astype("<f4"), random.normal(size=32).astype("<f4")
    distances = exact_distances(query, vectors, metric)
    wide_vectors, wide_query = vectors.astype(np.float64), query.astype(np.float64)
    products = wide_vectors @ wide_query
    lengths = np.linalg.norm(wide_vectors, axis=1) * np.linalg.norm(wide_query)
    exact = {"cosine": 1 - products / lengths, "ip": 1 - products, "l2": ((wide_vectors - wide_query) ** 2).sum(axis=1)}
    assert distances.argsort(kind="stable").tolist() == exact[metric].argsort(kind="stable").tolist()
    assert np.allclose(distances, exact[metric], rtol=1e-11, atol=1e-12)


def test_a_vector_is_no_distance_from_itself():
    vectors = np.random.default_rng(3).normal(size=(200, 384)).astype("<f4")
    assert {repr(float(exact_distances(each, each[np.newaxis], "cosine")[0])) for each in vectors} == {"0.0"}
