"""The search engine: which oracles are asked, how their results are fused, and which hits are relevant
enough, and what the receipt says."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from interfaces.passages.shortfalls import SHORTENED, shortfalls
from providers.outbound import deadlines
from registry.connection_threads import ConnectionThreads
from registry.embedding.queries import AskedEmbeddings
from retrieval.search.asking import SearchFailedError, UnknownOracleError
from retrieval.search.engine import PARALLEL
from retrieval.search.oracles.lexical import LexicalOracle
from retrieval.search.oracles.semantic import SemanticOracle
from schemas.contracts.search import MAX_QUERY_CHARACTERS, InvalidQueryError, SearchRequest, searchable
from schemas.errors import (
    CollectionNotFoundError,
    InvalidInputError,
    TooComplexError,
    TooManyRequestsError,
    UnavailableError,
)
from schemas.giving_way import QUESTIONS
from schemas.records import GatherSpec, OrderBy
from schemas.storage import read_limits
from schemas.where import parse_where
from schemas.wire.search import search_receipt
from tests.retrieval.search.conftest import BOOKS, NOTES, PAPERS, QUERY, Measured, Told, ids
from tests.support.live import LIMITS_SECONDS, PATIENCE_SECONDS, eventually


def used_up(seconds):
    return TooManyRequestsError("used up", retry_after_seconds=seconds, limit="embedded_tokens_per_day")


def test_oracles_agree_and_the_receipt_says_who_did_what(make):
    answer = make().search(SearchRequest(QUERY))
    first = answer.results[0]
    assert (first.doc_id, first.collection, first.sources) == ("zebra", BOOKS, ("semantic", "lexical"))
    assert {each.collection for each in answer.results} == {BOOKS, NOTES}
    receipt = answer.receipt
    assert {name: each.status for name, each in receipt.oracles.items()} == dict.fromkeys(
        ["semantic", "lexical", "persona"], "ok"
    )
    assert [each.count for each in receipt.oracles.values()] == [9, 1, 1]
    assert (receipt.rrf_k, receipt.fetch_multiplier, receipt.collections.asked) == (60, 2, (BOOKS, NOTES))
    assert receipt.weights == {"semantic": 1.0, "lexical": 1.0, "persona": 1.0}


def test_each_is_asked_for_a_multiple_of_the_limit_within_bounds_and_a_low_limit_is_no_hindrance(make):
    oracle = Told("told", *map(str, range(500)))
    engine = make(oracle, fetch_multiplier=3)
    assert len(engine.search(SearchRequest(QUERY, limit=7)).results) == 7
    make(oracle, fetch_multiplier=50).search(SearchRequest(QUERY, limit=100))
    make(oracle, fetch_min=50).search(SearchRequest(QUERY, limit=7))
    assert make(oracle, fetch_min=50).search(SearchRequest(QUERY, limit=100)).receipt.fetched == 200
    assert oracle.limits == [21, 1000, 50, 200]
    one = Told("one", *(f"one-{n}" for n in range(39)), "both")
    two = Told("two", *(f"two-{n}" for n in range(39)), "both")
    assert ids(make(one, two, fetch_min=50).search(SearchRequest(QUERY, limit=1))) == ["both"]
    assert make().search(SearchRequest("zebra " * 333 + "z")).results


def test_of_a_long_question_the_first_and_last_sentences_are_asked_and_the_report_says_so(make):
    mail = f"Dear all. {'We went to the zoo yesterday. ' * 200}Where does the otter sleep?"
    receipt = make(Told("told", "a")).search(SearchRequest(mail)).receipt
    assert receipt.asked_text.startswith("Dear all. We went to")
    assert receipt.asked_text.endswith("zoo yesterday. Where does the otter sleep?")
    assert shortfalls(search_receipt(receipt)) == [SHORTENED]
    receipt = make(Told("told", "a")).search(SearchRequest("q" * 2_000)).receipt
    assert receipt.asked_text is None
    assert shortfalls(search_receipt(receipt)) == []
    for text in ("x" * 9_000, "x " * 9_000, "。" * 9_000, "\n" * 9_000, "a. " + "b" * 9_000):
        assert len(searchable(text)) <= MAX_QUERY_CHARACTERS


def test_a_question_is_under_way_until_it_is_answered_or_has_failed(make):
    seen = []

    class Looking(Told):
        def query(self, question, limit):
            seen.append(QUESTIONS.are_under_way())
            if len(seen) > 1:
                raise UnavailableError("away")
            return super().query(question, limit)

    engine = make(Looking("looking", "one"))
    engine.search(SearchRequest(QUERY))
    assert not QUESTIONS.are_under_way()
    with pytest.raises(SearchFailedError):
        engine.search(SearchRequest(QUERY))
    assert seen == [True, True]
    assert not QUESTIONS.are_under_way()


def test_oracles_are_asked_at_the_same_time(make):
    """Each waits until the other is asked: one after the other, neither would answer."""
    both = threading.Barrier(2, timeout=PATIENCE_SECONDS)

    class Meeting(Told):
        def query(self, question, limit):
            both.wait()
            return super().query(question, limit)

    answer = make(Meeting("one", "a"), Meeting("two", "a")).search(SearchRequest(QUERY))
    assert answer.results[0].sources == ("one", "two")


@pytest.mark.parametrize("error", [UnavailableError("It is on fire"), RuntimeError("secret")])
def test_a_failing_oracle_is_named_and_the_others_answer(make, error):
    answer = make(Told("well", "a"), Told("ill", error=error)).search(SearchRequest(QUERY))
    assert ids(answer) == ["a"]
    assert answer.results[0].score == 1.0
    said = answer.receipt.oracles["ill"]
    assert (said.status, said.count) == ("failed", 0)
    assert "secret" not in said.error
    assert answer.receipt.oracles["well"].error is None


def test_an_unavailable_oracle_is_no_failure_and_a_weight_of_0_leaves_one_out(make):
    answer = make(Told("well", "a"), Told("absent", "b", available=False)).search(SearchRequest(QUERY))
    assert ids(answer) == ["a"]
    assert answer.receipt.oracles["absent"].status == "unavailable"
    assert make(Told("absent", available=False)).search(SearchRequest(QUERY)).results == []
    engine = make(Told("one", "a"), Told("two", "b"))
    assert ids(engine.search(SearchRequest(QUERY))) == ["a", "b"]
    assert ids(engine.search(SearchRequest(QUERY, weights={"two": 1.5}))) == ["b", "a"]
    answer = engine.search(SearchRequest(QUERY, weights={"one": 0}))
    assert (ids(answer), list(answer.receipt.oracles)) == (["b"], ["two"])


def test_an_oracle_that_does_not_answer_in_time_is_left_out_and_its_calls_end_with_the_search(make):
    for seconds in LIMITS_SECONDS:
        gate = threading.Event()
        try:
            engine = make(Told("quick", "a"), Told("slow", "b", gate=gate), retrieve_seconds=seconds)
            answer = engine.search(SearchRequest(QUERY))
        finally:
            gate.set()
        if ids(answer):
            break
    assert ids(answer) == ["a"]
    assert answer.receipt.oracles["slow"].error == f"No answer within {seconds:g} s"

    class Patient(Told):
        def query(self, question, limit):
            self.seconds_left, self.is_left = deadlines.seconds_left(), read_limits.current().client_has_left()
            return super().query(question, limit)

    oracle = Patient("patient", "a")
    with read_limits.limited(read_limits.ReadLimit(9.0, lambda: True)):
        make(oracle, retrieve_seconds=20.0).search(SearchRequest(QUERY))
    assert (oracle.seconds_left <= 20.0, oracle.is_left) == (True, True)


def test_an_oracle_that_hangs_keeps_nobody_from_asking_the_others(make):
    gate = threading.Event()
    slow = Told("slow", "b", gate=gate)
    engine = make(Told("quick", "a"), slow)
    with ThreadPoolExecutor(PARALLEL) as askers:
        hanging = [askers.submit(engine.search, SearchRequest(QUERY, oracles=("slow",))) for _ in range(PARALLEL)]
        try:
            eventually(lambda: len(slow.limits) == PARALLEL)
            assert ids(engine.search(SearchRequest(QUERY, oracles=("quick",)))) == ["a"]
        finally:
            gate.set()
    assert all(ids(each.result()) == ["b"] for each in hanging)


def test_when_all_fail_the_search_does_and_one_that_limits_alone_prevent_is_refused_by_them(make):
    broken = make(Told("a", error=UnavailableError("No fire brigade")), Told("b", available=False))
    with pytest.raises(SearchFailedError, match="No fire brigade") as raised:
        broken.search(SearchRequest(QUERY))
    assert raised.value.details["oracles"] == {"a": "No fire brigade"}
    refused = make(Told("a", error=used_up(5)), Told("b", error=used_up(7)), Told("c", available=False))
    with pytest.raises(TooManyRequestsError) as raised:
        refused.search(SearchRequest(QUERY))
    assert raised.value.retry_after_seconds == 7
    broken = make(Told("a", error=used_up(5)), Told("b", error=UnavailableError("No fire brigade")))
    with pytest.raises(SearchFailedError) as raised:
        broken.search(SearchRequest(QUERY))
    assert raised.value.details["oracles"] == {"a": "used up", "b": "No fire brigade"}


def test_a_search_that_could_ask_no_collection_fails_whatever_its_notes_say_and_by_its_own_fault_says_so(make):
    notes, deep, down = Told("notes", "a"), TooComplexError("deep"), UnavailableError("No fire brigade")
    notes.own_collections = (NOTES,)
    with pytest.raises(TooComplexError):
        make(Told("a", error=deep), Told("b", error=deep), notes).search(SearchRequest(QUERY))
    with pytest.raises(SearchFailedError, match="a: No fire brigade; b: deep"):
        make(Told("a", error=down), Told("b", error=deep), notes).search(SearchRequest(QUERY))
    assert ids(make(Told("a", error=deep), Told("b", "b"), notes).search(SearchRequest(QUERY))) == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "error", "field"),
    [
        ({"query": ""}, InvalidQueryError, "query"),
        ({"query": " \n"}, InvalidQueryError, "query"),
        ({"query": "\ud800"}, InvalidQueryError, "query"),
        ({"limit": 0}, InvalidInputError, "limit"),
        ({"limit": 101}, InvalidInputError, "limit"),
        ({"oracles": ()}, InvalidInputError, "oracles"),
        ({"oracles": ("psychic",)}, UnknownOracleError, "oracles"),
        ({"weights": {"psychic": 1}}, UnknownOracleError, "weights"),
        ({"weights": {"lexical": 1e308, "semantic": 1e308}}, InvalidInputError, "weights.lexical"),
        ({"weights": {"lexical": -1}}, InvalidInputError, "weights.lexical"),
        ({"weights": {"lexical": float("nan")}}, InvalidInputError, "weights.lexical"),
        ({"weights": {"lexical": 0, "semantic": 0, "persona": 0}}, InvalidInputError, "weights"),
    ],
)
def test_a_wrong_question_is_refused_by_field(make, change, error, field):
    with pytest.raises(error) as raised:
        make().search(SearchRequest(**{"query": QUERY, **change}))
    assert raised.value.details["field"] == field
    if error is UnknownOracleError:
        assert raised.value.details["allowed"] == ["semantic", "lexical", "persona"]


def test_named_collections_are_searched_together_and_so_are_notes(make):
    answer = make().search(SearchRequest(QUERY, collections=(BOOKS, PAPERS, BOOKS)))
    assert {(each.doc_id, each.collection) for each in answer.results} >= {("zebra", BOOKS), ("zebra", PAPERS)}
    assert answer.receipt.collections.asked == (BOOKS, PAPERS)
    assert list(answer.receipt.oracles) == ["semantic", "lexical"]
    by_collection = make().search(SearchRequest(QUERY, collections=(NOTES,)))
    assert "persona" in by_collection.receipt.oracles
    by_oracle = make().search(SearchRequest(QUERY, collections=(PAPERS,), oracles=("persona",)))
    assert ids(by_oracle) == ["note"]
    with pytest.raises(CollectionNotFoundError):
        make().search(SearchRequest(QUERY, collections=(BOOKS, "there-is-none")))


def test_a_collection_that_no_oracle_asked_is_told_from_those_that_one_did(make):
    def told(*oracles, **asked):
        return make(*oracles).search(SearchRequest(QUERY, collections=(BOOKS, PAPERS), **asked)).receipt.collections

    def missing(name, *collections):
        return Told(name, "a", left_out=dict.fromkeys(collections, f"{name} had no time left"))

    both = told(missing("one", BOOKS), missing("other", BOOKS, PAPERS))
    assert (both.asked, both.left_out) == ((PAPERS,), {BOOKS: "one had no time left"})
    failed = told(missing("one", PAPERS), Told("other", error=UnavailableError("It is down")))
    assert (failed.asked, failed.left_out) == ((BOOKS,), {PAPERS: "one had no time left"})
    notes = told(oracles=("persona",))
    assert notes.asked == (NOTES,)
    assert notes.left_out == dict.fromkeys((BOOKS, PAPERS), "no oracle that searches it was asked")


def test_a_filter_holds_for_every_oracle_a_document_is_one_result_and_every_candidate_that_was_cut_is_explained(make):
    found = make().search(SearchRequest("zebra zorro", where=parse_where({"half": 1}))).results
    assert found
    assert all(each.metadata["half"] == 1 for each in found)
    for most in (1, 2, 3):
        answer = make().search(SearchRequest("dog", max_per_document=most))
        assert ids(answer).count("dog") == most
        assert answer.results[0].chunk_id in {"dog-0", "dog-1", "dog-2"}
    answer = make().search(SearchRequest(QUERY, limit=2, explain=True, oracles=("semantic", "lexical")))
    assert [each.rank for each in answer.explanations] == list(range(3, 3 + len(answer.explanations)))
    cut = answer.explanations[0]
    assert cut.reason == f"cut: rank 3 of {len(answer.explanations) + 2}, the limit is 2"
    assert cut.oracles["semantic"].provenance.rank == 3
    assert cut.oracles["lexical"].reason == "not among the first 4"


@pytest.mark.parametrize(
    ("doc_id", "collection", "reason"),
    [
        ("zebra", BOOKS, "among the results"),
        ("mouse", BOOKS, "filtered out by where"),
        ("dog", BOOKS, "no oracle found it"),
        ("note", NOTES, "filtered out by where"),
        ("nobody", None, "not in the collections"),
    ],
)
def test_a_document_is_explained_by_its_id(make, doc_id, collection, reason):
    request = SearchRequest(QUERY, limit=1, explain=(doc_id,), where=parse_where({"half": 0}))
    [said] = make().search(request).explanations
    assert (said.collection, said.reason) == (collection, reason)
    assert set(said.oracles) == {"semantic", "lexical", "persona"}


def test_hits_bring_their_groups_each_once(make):
    request = SearchRequest(
        "zebra zorro", limit=3, collections=(BOOKS, PAPERS), gather=GatherSpec(("section",), (OrderBy("section"),))
    )
    answer = make().search(request)
    groups = answer.groups
    assert [each.group.rank for each in groups] == list(range(1, len(groups) + 1))
    assert len({(each.collection, each.group.key) for each in groups}) == len(groups)
    hits = {(each.collection, hit) for each in groups for hit in each.group.hits}
    assert hits == {(each.collection, each.chunk_id) for each in answer.results}
    first = groups[0]
    assert answer.results[0].chunk_id in first.group.hits
    whole = next(each for each in groups if (each.collection, each.group.key) == (BOOKS, "s0"))
    assert [each.id for each in whole.group.documents] == ["zebra", "zorro", "lizard", "mouse"]
    assert make().search(SearchRequest(QUERY)).groups is None


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


def test_the_order_of_a_single_oracle_stays_models_are_compared_by_words_and_without_embeddings_words_answer(
    make, shelve
):
    answer = make(fusion="smoothed").search(SearchRequest(QUERY, oracles=("semantic",)))
    assert answer.receipt.fusion == "rrf"
    places = [each.provenance["semantic"].rank for each in answer.results]
    assert places == sorted(places)
    strange = shelve("search-strange", {"other": "zebra of another model"}, embedding_model="letters-2")
    answer = make(fusion="smoothed").search(SearchRequest(QUERY, collections=(BOOKS, strange)))
    assert answer.receipt.compared_by == "words"
    assert {each.doc_id: each.relevance for each in answer.results}["other"] is None

    def fail(connection):
        raise UnavailableError("no embeddings")

    oracles = SemanticOracle(None), LexicalOracle()
    embed = partial(AskedEmbeddings, fail, ConnectionThreads("question"))
    answer = make(*oracles, fusion="smoothed", embed=lambda text: embed(), min_relevance=0.9).search(
        SearchRequest(QUERY, min_relevance=0.9)
    )
    assert (ids(answer), answer.receipt.min_relevance) == (["zebra"], None)
    assert answer.receipt.oracles["semantic"].status == "failed"


def test_each_hit_says_how_relevant_it_is(make):
    answer = make(fusion="smoothed").search(SearchRequest(QUERY))
    assert all(0.0 <= each.relevance <= 1.0 for each in answer.results)
    assert max(answer.results, key=lambda each: each.relevance).doc_id == "zebra"
    only_words = make().search(SearchRequest(QUERY, oracles=("lexical",)))
    assert [each.relevance for each in only_words.results] == [None]
    assert only_words.receipt.min_relevance is None


def test_hits_below_the_least_relevance_are_left_out_and_explained_but_what_has_all_words_by_default(make):
    engine = make(fusion="smoothed")
    everything = engine.search(SearchRequest(QUERY, min_relevance=0.0, max_per_document=1))
    least = sorted(each.relevance for each in everything.results)[len(everything.results) // 2]
    answer = engine.search(SearchRequest(QUERY, min_relevance=least, explain=True, max_per_document=1))
    assert ids(answer) == [each.doc_id for each in everything.results if each.relevance >= least]
    receipt = answer.receipt
    assert receipt.min_relevance == least
    assert receipt.below_min_relevance == len(everything.results) - len(answer.results) == len(answer.explanations) > 0
    assert all("relevance" in each.reason and f"is below {least:.2f}" in each.reason for each in answer.explanations)
    words = engine.search(SearchRequest(QUERY, oracles=("lexical",), min_relevance=1.0))
    assert (ids(words), words.receipt.min_relevance) == ([], 1.0)
    engine = make(fusion="smoothed", min_relevance=1.0)
    answer = engine.search(SearchRequest(f"the {QUERY}"))
    assert ids(answer) == ["zebra", "note"]
    assert answer.receipt.below_min_relevance > 0
    assert ids(engine.search(SearchRequest(f"{QUERY} in the moonlight"))) == []
    assert ids(engine.search(SearchRequest(QUERY, min_relevance=1.0))) == []
