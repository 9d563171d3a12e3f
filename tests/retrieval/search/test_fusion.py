"""Reciprocal rank fusion compared with its formula."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.search.fusion import rrf_fuse
from schemas.contracts.search import OracleResult


def result(doc_id, *, score=0.5, collection="docs", chunk=""):
    return OracleResult(doc_id, collection, chunk or doc_id, f"text of {chunk or doc_id}", score, {"id": doc_id})


def ranking(*doc_ids):
    return [result(doc_id) for doc_id in doc_ids]


def ids(fused):
    return [each.doc_id for each in fused]


rankings = st.dictionaries(
    st.sampled_from(["semantic", "lexical", "persona"]),
    st.lists(st.sampled_from("abcdefgh"), max_size=8).map(lambda names: ranking(*names)),
    min_size=1,
)
weights = st.dictionaries(st.sampled_from(["semantic", "lexical", "persona"]), st.integers(0, 5).map(float))


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(rankings, weights, st.integers(1, 100))
def test_scores_are_the_formula_and_the_order_is_theirs(rankings, weights, k):
    expected = {}
    for oracle, found in rankings.items():
        for rank, doc_id in enumerate(dict.fromkeys(each.doc_id for each in found), start=1):
            share = Fraction(weights.get(oracle, 1.0)) / (k + rank)
            expected[doc_id] = expected.get(doc_id, Fraction(0)) + share
    fused = rrf_fuse(rankings, k=k, weights=weights)
    assert {each.doc_id: each.rrf_score for each in fused} == pytest.approx({d: float(s) for d, s in expected.items()})
    assert ids(fused) == sorted(ids(fused), key=lambda doc_id: (-dict(scores(fused))[doc_id], doc_id))
    assert all(0.0 <= each.score <= 1.0 for each in fused)


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(rankings)
def test_the_order_of_the_oracles_makes_no_difference(rankings):
    backwards = dict(reversed(rankings.items()))
    assert scores(rrf_fuse(rankings)) == scores(rrf_fuse(backwards))


def scores(fused):
    return [(each.doc_id, each.rrf_score) for each in fused]


def test_ranks_count_from_1_and_k_is_60():
    [first, second] = rrf_fuse({"semantic": ranking("a", "b"), "lexical": ranking("a")})
    assert (first.rrf_score, second.rrf_score) == (2 / 61, 1 / 62)
    assert {name: place.rank for name, place in first.provenance.items()} == {"semantic": 1, "lexical": 1}
    assert first.score == 1.0
    assert second.score == pytest.approx((1 / 62) / (2 / 61))
    assert second.sources == ("semantic",)


def test_a_document_of_two_oracles_outranks_what_only_one_has_first():
    assert ids(rrf_fuse({"semantic": ranking("a", "b"), "lexical": ranking("c", "b")})) == ["b", "a", "c"]


def test_a_document_has_the_rank_of_its_best_chunk_and_ranks_count_documents():
    chunks = [result("a", chunk="a1", score=0.9), result("a", chunk="a2", score=0.8), result("b", score=0.7)]
    first, second = rrf_fuse({"semantic": chunks})
    assert (first.chunk_id, first.content, first.provenance["semantic"].score) == ("a1", "text of a1", 0.9)
    assert (second.doc_id, second.provenance["semantic"].rank) == ("b", 2)


def test_a_document_shows_the_chunk_that_counted_most():
    lexical = [result("x"), result("a", chunk="by words")]
    semantic = [result("a", chunk="by meaning")]
    assert rrf_fuse({"lexical": lexical, "semantic": semantic})[0].chunk_id == "by meaning"
    assert rrf_fuse({"lexical": lexical, "semantic": semantic}, weights={"lexical": 9.0})[0].chunk_id == "by words"


def test_one_id_in_two_collections_is_two_documents():
    fused = rrf_fuse({"semantic": [result("a", collection="z"), result("a", collection="b")]})
    assert [(each.collection, each.provenance["semantic"].rank) for each in fused] == [("z", 1), ("b", 2)]


def test_equal_scores_come_in_the_order_of_ids():
    assert ids(rrf_fuse({"semantic": ranking("b"), "lexical": ranking("a"), "persona": ranking("c")})) == list("abc")


def test_a_weight_counts_and_the_best_possible_score_is_that_of_all_who_answered():
    fused = rrf_fuse({"semantic": ranking("a"), "lexical": ranking("b"), "persona": []}, weights={"lexical": 2.0})
    assert ids(fused) == ["b", "a"]
    assert [each.score for each in fused] == pytest.approx([2 / 4, 1 / 4])
    assert math.isclose(fused[0].rrf_score, 2 / 61)


def test_nothing_found_is_nothing():
    assert rrf_fuse({}) == rrf_fuse({"semantic": []}) == []
