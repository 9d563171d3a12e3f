"""The documents that lie farthest from what is known, chosen in one pass over parts of all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapper.indexing.farthest import Farthest

METRICS = ("cosine", "l2", "ip")
AXES = np.eye(8, dtype=np.float32)


def chosen(known, vectors, sizes, metric, number):
    """Return what is chosen of vectors that come in parts of these sizes, again and again."""
    farthest, start, turn = Farthest(known, metric, number), 0, 0
    while start < len(vectors):
        farthest.see(vectors[start : start + sizes[turn % len(sizes)]])
        start, turn = start + sizes[turn % len(sizes)], turn + 1
    return farthest.vectors


@given(
    places=st.sets(st.integers(0, 199), min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=5),
    metric=st.sampled_from(METRICS),
)
def test_the_few_that_lie_apart_are_among_the_chosen_wherever_they_stand(places, sizes, metric):
    vectors = AXES[0] + np.linspace(-0.5, 0.5, 200, dtype=np.float32)[:, np.newaxis] * AXES[1]
    known = vectors[::10].copy()
    corners = AXES[2 : 2 + len(places)]
    vectors[sorted(places)] = corners
    found = chosen(known, vectors, sizes, metric, number=10)
    assert len(found) == 10
    for corner in corners:
        assert (found == corner).all(axis=1).any()


@given(
    components=st.lists(st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=2), min_size=1, max_size=9),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    metric=st.sampled_from(METRICS),
    number=st.integers(1, 4),
)
def test_each_of_the_chosen_is_another_one_of_those_that_were_seen(components, sizes, metric, number):
    """Whatever they are: without a direction, beyond what float32 can square, or infinite."""
    vectors = np.array(components, dtype=np.float32)
    found = chosen(vectors[:1], vectors, sizes, metric, number)
    assert len(found) == min(number, len(vectors))
    left = vectors.tolist()
    for each in found.tolist():
        left.remove(each)


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_is_chosen_of_nothing(metric):
    farthest = Farthest(AXES[:2], metric, number=3)
    farthest.see(AXES[:0])
    assert farthest.vectors.shape == (0, 8)
