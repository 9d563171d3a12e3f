"""Reciprocal rank fusion and neighbour smoothing compared with their formulas, the similarity of texts by their words, which of
a question's words were found, and the relevance of what was found."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.calibration import calibration_of
from retrieval.search.fusion import SCORED, Fusion
from retrieval.search.ranking import judge
from retrieval.search.relevance import (
    CANDIDATES,
    COMMON_WORD,
    TOGETHER,
    WordsFound,
)
from retrieval.search.smoothing import K1, NEIGHBOURS, SHARE, B, WordSimilarity, cosines, smoothed
from schemas.contracts.search import OracleResult
from schemas.ways import FUSIONS


def share_of_words(question, texts):
    return WordsFound(question, texts).share


def result(doc_id, *, score=0.5, collection="docs", chunk=""):
    return OracleResult(doc_id, collection, chunk or doc_id, f"text of {chunk or doc_id}", score, {"id": doc_id})


def ranking(*doc_ids):
    return [result(doc_id) for doc_id in doc_ids]


def fuse(rankings, **how):
    return Fusion(rankings, **how).results()


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
def test_scores_are_the_formula_and_the_order_is_theirs_whatever_that_of_the_oracles(rankings, weights, k):
    expected = {}
    for oracle, found in rankings.items():
        for rank, doc_id in enumerate(dict.fromkeys(each.doc_id for each in found), start=1):
            share = Fraction(weights.get(oracle, 1.0)) / (k + rank)
            expected[doc_id] = expected.get(doc_id, Fraction(0)) + share
    fused = fuse(rankings, k=k, weights=weights)
    assert {each.doc_id: each.rrf_score for each in fused} == pytest.approx({d: float(s) for d, s in expected.items()})
    assert ids(fused) == sorted(ids(fused), key=lambda doc_id: (-dict(scores(fused))[doc_id], doc_id))
    assert all(0.0 <= each.score <= 1.0 for each in fused)
    assert scores(fuse(dict(reversed(rankings.items())), k=k, weights=weights)) == scores(fused)


def scores(fused):
    return [(each.doc_id, each.rrf_score) for each in fused]


def test_ranks_count_from_1_k_is_60_who_comes_first_and_a_weight_counts():
    [first, second] = fuse({"semantic": ranking("a", "b"), "lexical": ranking("a")})
    assert (first.rrf_score, second.rrf_score) == (2 / 61, 1 / 62)
    assert {name: place.rank for name, place in first.provenance.items()} == {"semantic": 1, "lexical": 1}
    assert first.score == 1.0
    assert second.score == pytest.approx((1 / 62) / (2 / 61))
    assert second.sources == ("semantic",)
    assert ids(fuse({"semantic": ranking("a", "b"), "lexical": ranking("c", "b")})) == ["b", "a", "c"]
    fused = fuse({"semantic": [result("a", collection="z"), result("a", collection="b")]})
    assert [(each.collection, each.provenance["semantic"].rank) for each in fused] == [("z", 1), ("b", 2)]
    assert ids(fuse({"semantic": ranking("b"), "lexical": ranking("a"), "persona": ranking("c")})) == list("abc")
    assert fuse({}) == fuse({"semantic": []}) == []
    fused = fuse({"semantic": ranking("a"), "lexical": ranking("b"), "persona": []}, weights={"lexical": 2.0})
    assert ids(fused) == ["b", "a"]
    assert [each.score for each in fused] == pytest.approx([2 / 4, 1 / 4])
    assert math.isclose(fused[0].rrf_score, 2 / 61)


def test_a_document_shows_the_chunk_that_counted_most_and_has_its_rank():
    chunks = [result("a", chunk="a1", score=0.9), result("a", chunk="a2", score=0.8), result("b", score=0.7)]
    first, second = fuse({"semantic": chunks})
    assert (first.chunk_id, first.content, first.provenance["semantic"].score) == ("a1", "text of a1", 0.9)
    assert (second.doc_id, second.provenance["semantic"].rank) == ("b", 2)
    lexical = [result("x"), result("a", chunk="by words")]
    semantic = [result("a", chunk="by meaning")]
    assert fuse({"lexical": lexical, "semantic": semantic})[0].chunk_id == "by meaning"
    assert fuse({"lexical": lexical, "semantic": semantic}, weights={"lexical": 9.0})[0].chunk_id == "by words"
    chunks = [result("a", score=0.9, chunk="a1"), result("b", score=0.5), result("a", score=0.1, chunk="a2")]
    first, second = fuse({"semantic": chunks}, fusion="scores")
    assert (first.chunk_id, first.score, second.doc_id, second.score) == ("a1", 1.0, "b", 0.5)


def test_ranks_of_the_chunks_of_a_document_count_from_1_too():
    first = [result("a", chunk="once"), result("a", chunk="twice"), *ranking("b", "c", "d", "e")]
    second = [result("b"), result("a", chunk="twice"), *ranking("c", "d", "e"), result("a", chunk="once")]
    # 1/2 + 1/7 is less than 1/3 + 1/3; counted from 0, 1/1 + 1/6 would be more than 1/2 + 1/2.
    shown = {each.doc_id: each.chunk_id for each in fuse({"semantic": first, "lexical": second}, k=1)}
    assert shown["a"] == "twice"


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_document_shows_the_chunk_that_has_the_word_and_is_nearly_as_near(fusion):
    semantic = [result("a", chunk="near", score=0.9), result("a", chunk="word", score=0.8), result("b", score=0.1)]
    lexical = [result("a", chunk="word", score=0.7), result("b", score=0.2), result("a", chunk="near", score=0.1)]
    for rankings in ({"semantic": semantic, "lexical": lexical}, {"lexical": lexical, "semantic": semantic}):
        first = fuse(rankings, fusion=fusion)[0]
        assert (first.chunk_id, first.content) == ("word", "text of word")
        assert {name: each.rank for name, each in first.provenance.items()} == {"semantic": 1, "lexical": 1}
        assert first.score == 1.0


def measured(*pairs):
    return [
        OracleResult(doc_id, "docs", doc_id, doc_id, min(1.0, max(0.0, score)), {}, measured=score)
        for doc_id, score in pairs
    ]


scored = st.dictionaries(
    st.sampled_from(["semantic", "lexical", "persona"]),
    st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-2, 30), max_size=8).map(
        lambda found: measured(*sorted(found.items(), key=lambda pair: -pair[1]))
    ),
    min_size=1,
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(scored, weights)
def test_scores_are_scaled_from_the_last_to_the_best_and_added(rankings, weights):
    expected, possible = {}, sum(weights.get(oracle, 1.0) for oracle in rankings)
    for oracle, found in rankings.items():
        values = [each.measured for each in found]
        for each in found:
            spread = max(values) - min(values)
            share = (each.measured - min(values)) / spread if spread > 0 else 1.0
            expected[each.doc_id] = expected.get(each.doc_id, 0.0) + weights.get(oracle, 1.0) * share
    fused = fuse(rankings, fusion="scores", weights=weights)
    shown = {each.doc_id: each.score for each in fused}
    assert shown == pytest.approx({doc: value / possible if possible else 0.0 for doc, value in expected.items()})
    assert [each.score for each in fused] == sorted(shown.values(), reverse=True)
    assert {each.doc_id: each.rrf_score for each in fused} == {
        each.doc_id: each.rrf_score for each in fuse(rankings, weights=weights)
    }
    backwards = fuse(dict(reversed(rankings.items())), fusion="scores", weights=weights)
    assert [(each.doc_id, each.score) for each in backwards] == [(each.doc_id, each.score) for each in fused]


def test_oracles_that_measure_the_same_are_scaled_together_and_scores_beyond_the_first_hundred_do_not_count():
    rankings = {"semantic": measured(("a", 0.8), ("b", 0.4)), "persona": measured(("note", 0.5))}
    alone = {each.doc_id: each.score for each in fuse(rankings, fusion="scores")}
    together = {
        each.doc_id: each.score for each in fuse(rankings, fusion="scores", measures=dict.fromkeys(rankings, "cosine"))
    }
    assert alone == pytest.approx({"a": 0.5, "b": 0.0, "note": 0.5})
    assert together == pytest.approx({"a": 0.5, "b": 0.0, "note": 0.125})
    found = measured(*((f"d{number:03}", 1000.0 - number) for number in range(SCORED + 50)))
    scores = [each.score for each in fuse({"lexical": found}, fusion="scores")]
    assert scores[0] == 1.0
    assert scores[SCORED - 1 :] == [0.0] * 51


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


def test_words_that_every_text_has_do_not_count():
    found = WordSimilarity().of(["the heat of it", "the flow of it"])
    assert found.tolist() == [pytest.approx([1, 0]), pytest.approx([0, 1])]


class Asked:
    """A question that was embedded by a calibrated model, which embeds nothing."""

    model = "m"

    def __init__(self):
        self.connection = self

    def relevance(self, cosine, words_found=1.0):
        return calibration_of("all-MiniLM-L6-v2").relevance(cosine, words_found)


class NoVectors:
    """The vectors of passages that have none."""

    def of(self, passages):
        return [None] * len(passages)


def found(text, cosine, **metadata):
    return OracleResult("doc", "c", text, text, 0.5, metadata, cosine=cosine)


def relevances(results, question, collection="c"):
    passages = fuse({"semantic": results}, unit=lambda each: each.chunk_id)
    words, least = WordsFound.of(question, results), {collection: 0.0}
    judge(passages, NoVectors(), {collection: Asked()}, words, least, spares=False)
    return [each.relevance for each in passages]


TEXTS = ["Backups run every night.", "The service listens on a port.", "Restore a backup on another machine."]


def all_of(*rarities):
    """The share of words with these rarities that were all found, together."""
    return sum(rarities) / (sum(rarities) + COMMON_WORD)


ONE_OF_THREE = math.log(1 + 2.5 / 1.5)
TWO_OF_THREE = math.log(1 + 1.5 / 2.5)


@pytest.mark.parametrize(
    ("question", "share", "are_all_in_the_last"),
    [
        ("backups", all_of(TWO_OF_THREE), True),
        ("Where do they RUN?", all_of(ONE_OF_THREE), False),
        ("What is it?", 0.0, False),
        ("", 0.0, False),
        ("tractor", 0.0, False),
        ("Traktor, Öl?", 0.0, False),
        ("the nightly backup", None, False),
        ("a backup of the machine", None, True),
        ("Where is the backup?", None, False),
        ("What is machine?", None, True),
        ("How do I make a backup?", None, False),
        ("where", None, False),
    ],
)
def test_the_share_of_words_and_whether_a_text_has_all(question, share, are_all_in_the_last):
    assert share is None or share_of_words(question, TEXTS) == pytest.approx(share)
    assert WordsFound(question, TEXTS).found_in(TEXTS[2])[1] is are_all_in_the_last


def test_forms_of_a_word_are_one_word_and_a_part_of_one_is_none_but_for_scripts_without_spaces():
    assert share_of_words("listening", TEXTS) == share_of_words("listens", TEXTS) > 0
    assert share_of_words("restored", TEXTS) == share_of_words("restore", TEXTS) > 0
    assert share_of_words("port", ["transport"]) == 0.0
    assert share_of_words("port", ["transport by port"]) > 0.0
    assert share_of_words("port", ["the_port"]) > 0.0
    texts = ["数据库每天晚上备份", "日本"]
    assert 0.0 < share_of_words("备份餐馆", texts) < share_of_words("备份", texts)
    assert share_of_words("餐馆", texts) == 0.0
    assert share_of_words("本", texts) > 0.0


def test_a_text_has_all_words_in_the_forms_of_the_word_index():
    texts = ["Eine Maus wird gefangen.", "型番ＡＢＣ１２３", "Knead the dough.", "A search by A*", "A good mark is A-."]
    for question, place in (("Mäuse fangen", 0), ("ABC123", 1), ("A*", 3)):
        found = WordsFound(question, texts)
        assert [found.found_in(text)[1] for text in texts] == [each == place for each in range(len(texts))]


def test_the_rarer_a_word_the_more_it_counts_and_words_of_one_text_more_than_words_of_several():
    rare, frequent = share_of_words("rare zebra", ["rare", "x", "x"]), share_of_words("x zebra", ["rare", "x", "x"])
    assert 0.0 < frequent < rare < 0.5, "a word that no text has is the rarest"
    everywhere, rare = share_of_words("x", ["x"] * CANDIDATES), share_of_words("x", ["x", *["y"] * (CANDIDATES - 1)])
    assert everywhere < 0.1 < 0.7 < rare
    together, apart = (
        share_of_words("alpha omega", [*texts, *["nothing"] * 10]) for texts in (["alpha omega"], ["alpha", "omega"])
    )
    assert apart < together
    below = ["nothing"] * TOGETHER
    assert share_of_words("alpha omega", [*below, "alpha omega"]) < share_of_words(
        "alpha omega", ["alpha omega", *below]
    )
    words = WordsFound("striped zebra", ["a striped zebra", "a zebra", *["nothing"] * (CANDIDATES - 2)])
    shares = [words.found_in(text)[0] for text in ("nothing", "a zebra", "a striped zebra")]
    assert shares == sorted(set(shares))
    assert shares[0] == pytest.approx(words.share / 2)
    assert shares[2] == pytest.approx(words.share)


def test_relevance_goes_by_the_nearest_texts_with_their_headings():
    [one] = relevances([found("It runs every night.", 0.3, title="Backups")], "backups")
    [other] = relevances([found("It runs every night.", 0.3)], "backups")
    assert one > other
    far = [found(f"nothing {n}", 0.2) for n in range(CANDIDATES)]
    with_it = relevances([found("zebra", 0.3), *far], "zebra")[0]
    assert with_it > relevances([found("nothing", 0.3), *far[1:], found("zebra", 0.1)], "zebra")[0]
    results = [found(text, cosine) for text, cosine in zip(TEXTS, (0.5, 0.3, 0.1), strict=True)]
    judged = relevances(results, "When do backups run?")
    assert judged == sorted(judged, reverse=True)
    assert judged[0] > 0.9 > 0.5 > judged[2]


def test_what_cannot_be_compared_has_no_relevance():
    one, other = relevances([found("a", None), found("b", 0.9)], "b")
    assert one is None
    assert other > 0.9
    assert relevances([], "b") == []
    assert relevances([found("b", 0.9)], "b", "other") == [None]
