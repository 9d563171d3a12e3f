"""Neighbour smoothing compared with its formula, and the similarity of texts by their words."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.search.smoothing import K1, NEIGHBOURS, SHARE, B, WordSimilarity, cosines, smoothed

SCORES = st.lists(st.floats(0, 1), max_size=25)


def likeness(count, seed):
    made = np.random.default_rng(seed).random((count, count)).astype(np.float32)
    return (made + made.T) / 2


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(SCORES, st.integers(0, 1000))
def test_each_score_is_mixed_with_those_of_its_nearest_neighbours(scores, seed):
    similar = likeness(len(scores), seed)
    expected = []
    for each, own in enumerate(scores):
        others = sorted((other for other in range(len(scores)) if other != each), key=lambda n: -similar[each, n])
        last = similar[each, others[:NEIGHBOURS][-1]] if others else 0.0
        nearest = [other for other in others if similar[each, other] >= last]
        total = math.fsum(float(similar[each, other]) for other in nearest)
        mean = math.fsum(float(similar[each, other]) * scores[other] for other in nearest) / total if total else own
        expected.append((1 - SHARE) * own + SHARE * mean)
    found = smoothed(scores, similar.copy())
    assert found.tolist() == pytest.approx(expected, abs=1e-6)
    assert all(0.0 <= score <= 1.0 + 1e-9 for score in found)


def test_good_neighbours_lift_a_score_and_what_is_like_no_other_keeps_its_own():
    scores = [0.9, 0.5, 0.1]
    assert smoothed(scores, np.eye(3, dtype=np.float32)).tolist() == pytest.approx(scores)
    assert smoothed(scores, -np.ones((3, 3), dtype=np.float32)).tolist() == pytest.approx(scores)
    assert smoothed([], np.zeros((0, 0), dtype=np.float32)).tolist() == []
    assert smoothed([0.3], np.ones((1, 1), dtype=np.float32)).tolist() == [0.3]
    similar = np.array([[1, 0.8, 0.8, 0], [0.8, 1, 0.8, 0], [0.8, 0.8, 1, 0], [0, 0, 0, 1]], dtype=np.float32)
    scores = smoothed([1.0, 0.9, 0.50, 0.55], similar)
    assert scores[2] > scores[3]
    found = cosines([np.array([2.0, 0.0]), np.array([1.0, 1.0]), np.array([0.0, 0.0])])
    assert found == pytest.approx(np.array([[1, math.sqrt(0.5), 0], [math.sqrt(0.5), 1, 0], [0, 0, 0]]), abs=1e-6)


def by_hand(texts):
    """The cosines of the texts' BM25 weights; each text is a list of words."""
    mean = max(1.0, sum(map(len, texts)) / len(texts))
    having = {word: sum(word in text for text in texts) for text in texts for word in text}

    def weights(text):
        norm = K1 * (1 - B + B * len(text) / mean)
        return {
            word: text.count(word)
            * (K1 + 1)
            / (text.count(word) + norm)
            * math.log1p((len(texts) - having[word] + 0.5) / (having[word] + 0.5))
            for word in set(text)
        }

    def cosine(one, other):
        lengths = [math.sqrt(sum(weight**2 for weight in each.values())) for each in (one, other)]
        shared = sum(weight * other.get(word, 0.0) for word, weight in one.items())
        return shared / (lengths[0] * lengths[1]) if all(lengths) else 0.0

    weighed = [weights(text) for text in texts]
    return [[cosine(one, other) for other in weighed] for one in weighed]


@pytest.mark.slow
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.lists(st.sampled_from(["wing", "flow", "heat", "mach", "größe"]), max_size=12), min_size=1, max_size=8)
)
def test_texts_are_compared_by_weighed_words(texts):
    words = WordSimilarity()
    spelt = [" ".join(text).title() for text in texts]
    for _ in range(2):  # the second time from what is kept
        assert words.of(spelt).tolist() == [pytest.approx(row, abs=1e-5) for row in by_hand(texts)]


def test_words_that_every_text_has_do_not_count_and_what_is_kept_is_bounded():
    found = WordSimilarity().of(["the heat of it", "the flow of it"])
    assert found.tolist() == [pytest.approx([1, 0]), pytest.approx([0, 1])]
    words = WordSimilarity(cached_characters=100)
    texts = [f"text number {number} of many" for number in range(50)] + ["x" * 1_000]
    assert words.of(texts).shape == (51, 51)
    assert words._known.currsize <= 100
