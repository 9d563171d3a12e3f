"""The order of a search: how answers are fused, and which hits are relevant enough."""

from functools import partial

from registry.connection_threads import ConnectionThreads
from registry.embedding.queries import AskedEmbeddings
from retrieval.search.oracles.lexical import LexicalOracle
from retrieval.search.oracles.semantic import SemanticOracle
from schemas.contracts.search import SearchRequest
from schemas.errors import UnavailableError
from tests.retrieval.search.told_oracles import BOOKS, QUERY, Measured, ids


def test_the_fusion_is_the_settings_unless_the_request_names_one(make):
    oracles = [Measured("one", zebra=0.9, zorro=0.88, mouse=0.1), Measured("two", mouse=0.9, zorro=0.8, zebra=0.1)]
    engine = make(*oracles, fusion="scores")
    by_scores = engine.search(SearchRequest(QUERY))
    assert (by_scores.receipt.fusion, by_scores.receipt.compared_by) == ("scores", None)
    assert ids(by_scores) == ["zorro", "mouse", "zebra"]
    by_ranks = engine.search(SearchRequest(QUERY, fusion="rrf"))
    assert (by_ranks.receipt.fusion, ids(by_ranks)) == ("rrf", ["mouse", "zebra", "zorro"])
    assert {each.doc_id: each.rrf_score for each in by_scores.results} == {
        each.doc_id: each.rrf_score for each in by_ranks.results
    }
    smoothed = engine.search(SearchRequest(QUERY, fusion="smoothed"))
    assert (smoothed.receipt.fusion, smoothed.receipt.compared_by) == ("smoothed", "vectors and words")
    assert [each.score for each in smoothed.results] == sorted((each.score for each in smoothed.results), reverse=True)


def test_the_order_of_a_single_oracle_stays(make):
    answer = make(fusion="smoothed").search(SearchRequest(QUERY, oracles=("semantic",)))
    assert answer.receipt.fusion == "rrf"
    places = [each.provenance["semantic"].rank for each in answer.results]
    assert places == sorted(places)


def test_candidates_of_different_models_are_compared_by_words(make, shelve):
    strange = shelve("search-strange", {"other": "zebra of another model"}, embedding_model="letters-2")
    answer = make(fusion="smoothed").search(SearchRequest(QUERY, collections=(BOOKS, strange)))
    assert answer.receipt.compared_by == "words"
    assert {each.doc_id: each.relevance for each in answer.results}["other"] is None


def test_each_hit_says_how_relevant_it_is(make):
    answer = make(fusion="smoothed").search(SearchRequest(QUERY))
    assert all(0.0 <= each.relevance <= 1.0 for each in answer.results)
    assert max(answer.results, key=lambda each: each.relevance).doc_id == "zebra"
    only_words = make().search(SearchRequest(QUERY, oracles=("lexical",)))
    assert [each.relevance for each in only_words.results] == [None]
    assert only_words.receipt.min_relevance is None


def test_hits_below_the_least_relevance_are_left_out_and_explained(make):
    engine = make(fusion="smoothed")
    everything = engine.search(SearchRequest(QUERY, min_relevance=0.0))
    least = sorted(each.relevance for each in everything.results)[len(everything.results) // 2]
    answer = engine.search(SearchRequest(QUERY, min_relevance=least, explain=True))
    assert ids(answer) == [each.doc_id for each in everything.results if each.relevance >= least]
    receipt = answer.receipt
    assert receipt.min_relevance == least
    assert receipt.below_min_relevance == len(everything.results) - len(answer.results) == len(answer.explanations) > 0
    assert all("relevance" in each.reason and f"is below {least:.2f}" in each.reason for each in answer.explanations)
    words = engine.search(SearchRequest(QUERY, oracles=("lexical",), min_relevance=1.0))
    assert (ids(words), words.receipt.min_relevance) == ([], 1.0)


def test_by_default_what_has_all_words_of_the_question_is_relevant_enough(make):
    engine = make(fusion="smoothed", min_relevance=1.0)
    answer = engine.search(SearchRequest(f"the {QUERY}"))
    assert ids(answer) == ["zebra", "note"]
    assert answer.receipt.below_min_relevance > 0
    assert ids(engine.search(SearchRequest(f"{QUERY} in the moonlight"))) == []
    assert ids(engine.search(SearchRequest(QUERY, min_relevance=1.0))) == []


def test_without_embeddings_words_answer_and_relevance_is_unknown(make):
    def fail(connection):
        raise UnavailableError("no embeddings")

    oracles = SemanticOracle(None), LexicalOracle()
    embed = partial(AskedEmbeddings, fail, "default", ConnectionThreads("question"))
    answer = make(*oracles, fusion="smoothed", embed=lambda text: embed(), min_relevance=0.9).search(
        SearchRequest(QUERY, min_relevance=0.9)
    )
    assert (ids(answer), answer.receipt.min_relevance) == (["zebra"], None)
    assert answer.receipt.oracles["semantic"].status == "failed"


def test_a_question_is_embedded_once_for_all(make):
    embedded = []

    def embed(text):
        asked = usual(text)
        make = asked._make

        def counted(connection):
            embedded.append(text)
            return make(connection)

        asked._make = counted
        return asked

    engine = make(fusion="smoothed")
    usual = engine._embed
    engine._embed = embed
    assert {"semantic", "persona"} <= engine.search(SearchRequest("zebras")).receipt.oracles.keys()
    assert embedded == ["zebras"]
