"""Distances and scores without the rounding errors of their computation; of the documents whose distances are computed
exactly, none that is among the nearest is missing, whatever is compared."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.records import METRICS
from schemas.scores import rounded, score
from wrapper import distances
from wrapper.distances import exact_distances, possible_nearest, possible_within


def _nearest(query, vectors, metric, top_k):
    """Return the rows of the nearest, and of those that are as near as the last of them."""
    exact = exact_distances(query, vectors, metric)
    return set(np.flatnonzero(exact <= np.sort(exact)[:top_k][-1]).tolist())


def _found(query, vectors, metric, top_k):
    return set(possible_nearest(query, vectors, metric, top_k).tolist())


@given(
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.integers(1, 70),
    st.sampled_from(METRICS),
    st.integers(1, 12),
    st.floats(-30, 30),
    st.floats(0, 20),
    st.floats(-1e6, 1e6),
)
def test_the_nearest_are_among_those_compared(seed, count, dimension, metric, top_k, size, spread, mean):
    """Lengths differ by up to 20 powers of ten, from the smallest numbers of float32 to the largest."""
    generator = np.random.default_rng(seed)
    lengths = 10.0 ** np.clip(size + spread * generator.uniform(-0.5, 0.5, (count, 1)), -37, 36)
    vectors = (generator.standard_normal((count, dimension)) + mean * generator.integers(0, 2)) * lengths
    vectors = np.clip(vectors.round(generator.integers(0, 50)), -3e38, 3e38).astype(np.float32)
    query = vectors[0] * np.float32(10.0 ** generator.integers(-3, 1))
    assert _nearest(query, vectors, metric, top_k) <= _found(query, vectors, metric, top_k)
    exact = exact_distances(query, vectors, metric)
    farthest = np.sort(exact)[:top_k][-1:]
    (possible,) = possible_within(query[np.newaxis], vectors, metric, farthest)
    assert set(np.flatnonzero(exact <= farthest)) <= set(np.flatnonzero(possible))


def test_documents_that_are_equally_far_but_for_rounding_are_all_compared():
    """Beside a long query, all short vectors are as far as it is long."""
    generator = np.random.default_rng(3)
    for _ in range(150):
        vectors = generator.standard_normal((750, 24)) * 10.0 ** generator.uniform(-25, 17, (750, 1))
        vectors = vectors.astype(np.float32)
        query = vectors[generator.integers(750)]
        assert _nearest(query, vectors, "l2", 100) <= _found(query, vectors, "l2", 100)


def test_large_products_that_cancel_each_other_hide_no_difference():
    generator = np.random.default_rng(2)
    common, query = 1e7 * generator.standard_normal(24), generator.standard_normal(24)
    query -= common * (query @ common) / (common @ common)
    vectors, query = (generator.standard_normal((1_500, 24)) + common).astype(np.float32), query.astype(np.float32)
    assert _nearest(query, vectors, "ip", 10) <= _found(query, vectors, "ip", 10)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dimension", [4_096, 16_384])
def test_errors_of_adding_many_equal_terms_hide_no_difference(metric, dimension):
    generator = np.random.default_rng(3)
    for _ in range(5):
        vectors = np.full((40, dimension), generator.uniform(1, 2), dtype=np.float32)
        vectors[:, 0] *= 1 + np.float32(1e-6) * generator.integers(0, 9, 40)
        query = vectors[1] * np.float32(-1.5)
        assert _nearest(query, vectors, metric, 3) <= _found(query, vectors, metric, 3)


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
def test_few_are_compared_exactly(metric):
    vectors = np.random.default_rng(4).standard_normal((4_096, 384)).astype(np.float32)
    queries = vectors[:30] + np.float32(0.1)
    assert max(len(_found(query, vectors, metric, 10)) for query in queries) <= 12
    farthest = np.array([np.sort(exact_distances(query, vectors, metric))[9] for query in queries])
    assert possible_within(queries, vectors, metric, farthest).sum(axis=1).max() <= 12


def test_memory_is_bounded_whatever_the_dimension(monkeypatch):
    monkeypatch.setattr(distances, "COMPONENTS_AT_ONCE", 1_000)
    assert [distances.vectors_at_once(dimension) for dimension in (1, 3, 1_000, 65_536)] == [1_000, 333, 1, 1]


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
