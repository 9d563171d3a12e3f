"""The two directions in which vectors differ most, compared with NumPy's singular values."""

import numpy as np
import pytest

from wrapper.querying.principal_axes import principal_axes


def _cloud(count, dimension, seed=3):
    """Vectors that spread most along the first component, then along the second."""
    return np.random.default_rng(seed).standard_normal((count, dimension), dtype=np.float32) * np.geomspace(
        8, 0.1, dimension, dtype=np.float32
    )


@pytest.mark.parametrize(("count", "dimension"), [(500, 12), (12, 500), (40, 40), (3, 2), (2, 9)])
def test_axes_are_the_first_right_singular_vectors(count, dimension):
    vectors = _cloud(count, dimension)
    axes = principal_axes(vectors)
    _, singular, rows = np.linalg.svd((vectors - vectors.mean(axis=0)).astype(np.float64), full_matrices=False)
    variances = singular**2 / (singular**2).sum()
    assert axes.explained == pytest.approx(variances[:2], abs=1e-5)
    for number in range(2):
        if variances[number] > 1e-9:
            expected = rows[number] * np.sign(rows[number][np.abs(rows[number]).argmax()])
            assert axes.axes[:, number] == pytest.approx(expected, abs=1e-3)


def test_the_same_vectors_in_another_order_lie_in_the_same_places():
    vectors = _cloud(300, 20)
    order = np.random.default_rng(1).permutation(300)
    there, here = principal_axes(vectors).places_of(vectors), principal_axes(vectors[order]).places_of(vectors)
    assert here == pytest.approx(there, abs=1e-4)


@pytest.mark.parametrize(
    "vectors",
    [
        np.zeros((5, 4)),
        np.full((5, 4), 0.1),
        np.full((1000, 3), 1e-38),
        np.full((7, 2), -3e38),
        np.ones((1, 6)),
        np.ones((1, 1)),
    ],
    ids=["zeros", "equal", "tiny", "huge", "one", "one number"],
)
def test_equal_vectors_lie_in_one_place(vectors):
    vectors = vectors.astype(np.float32)
    axes = principal_axes(vectors)
    assert axes.explained == (0.0, 0.0)
    assert np.array_equal(axes.places_of(vectors), np.zeros((len(vectors), 2)))


def test_vectors_of_one_component_lie_on_a_line():
    vectors = np.array([[1.0], [2.0], [4.0]], dtype=np.float32)
    axes = principal_axes(vectors)
    assert axes.explained == pytest.approx((1, 0))
    places = axes.places_of(vectors)
    assert np.array_equal(places[:, 1], np.zeros(3))
    assert (places[2, 0] - places[1, 0]) == pytest.approx(2 * (places[1, 0] - places[0, 0]))


@pytest.mark.parametrize("scale", [1e-30, 1e30, 3e38])
def test_neither_large_nor_small_components_overflow(scale):
    vectors = (np.array([[1, 0, 0], [-1, 0, 0], [0, 0.5, 0], [0, -0.5, 0]]) * scale).astype(np.float32)
    axes = principal_axes(vectors)
    assert axes.explained == pytest.approx((0.8, 0.2))
    assert np.all(np.isfinite(axes.places_of(vectors)))
