"""Scores of rank expressions against a model that has a score for each document alone."""

import math

from hypothesis import given
from hypothesis import strategies as st

from schemas.wire.chroma.ranking import Joined, Nearest, nearest_of, ranked

OPERATIONS = {
    "$sum": lambda left, right: left + right,
    "$sub": lambda left, right: left - right,
    "$mul": lambda left, right: left * right,
    "$max": max,
    "$min": min,
}
IDS = list("abcdef")
numbers = st.integers(-5, 5).map(float)
nearest = st.builds(Nearest, st.just("words"), st.just(6), st.none() | numbers, st.booleans())
constants = numbers.map(lambda value: Joined("$val", value=value))
ranks = st.recursive(
    nearest | constants,
    lambda inner: (
        st.builds(
            Joined,
            st.sampled_from(["$sum", "$mul", "$max", "$min"]),
            st.lists(inner, min_size=1, max_size=3).map(tuple),
        )
        | st.builds(Joined, st.just("$sub"), st.tuples(inner, inner))
        | st.builds(Joined, st.just("$abs"), st.tuples(inner))
    ),
    max_leaves=6,
)
lists = st.lists(st.sampled_from(IDS), unique=True).flatmap(
    lambda ids: st.lists(numbers, min_size=len(ids), max_size=len(ids)).map(
        lambda distances: list(zip(ids, sorted(distances), strict=True))
    )
)


def modelled(rank, found, document):
    """Return the score of one document, None when it has none."""
    if isinstance(rank, Nearest):
        for place, (each, distance) in enumerate(found[rank]):
            if each == document:
                return float(place) if rank.by_rank else distance
        return rank.default
    if not rank.parts:
        return rank.value
    scores = [modelled(part, found, document) for part in rank.parts]
    if None in scores:
        return None
    if rank.operator == "$abs":
        return abs(scores[0])
    score = scores[0]
    for other in scores[1:]:
        score = OPERATIONS[rank.operator](score, other)
    return score


@given(data=st.data(), rank=ranks)
def test_scores_are_those_of_each_document_alone(data, rank):
    found = {each: data.draw(lists) for each in nearest_of(rank)}
    anywhere = {each for documents in found.values() for each, _ in documents}
    expected = {each: modelled(rank, found, each) for each in anywhere}
    answer = ranked(rank, found)
    assert dict(answer) == {each: score for each, score in expected.items() if score is not None}
    scores = [score for _, score in answer]
    assert scores == sorted(scores)
    assert not any(math.isnan(score) for score in scores)
