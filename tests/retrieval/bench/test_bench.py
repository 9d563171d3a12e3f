"""The benchmark: query sets, measures, runs. Judgements and measurements as the catalogue keeps them: whose they
are, how many, and what erasure takes."""

from unittest.mock import Mock

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import RR, R, Success, nDCG

from registry.embedding.queries import EmbeddingMismatchError
from retrieval.bench import judgements as module
from retrieval.bench.benches import LOST_AFTER_SECONDS, BenchRunner, StoredBenches
from retrieval.bench.judgements import Judgements
from retrieval.bench.query_set import read_query_set
from retrieval.bench.running import MEASURES, Bench, quality
from retrieval.search.oracles.lexical import LexicalOracle
from retrieval.search.oracles.semantic import SemanticOracle
from schemas.access.owners import Asker
from schemas.contracts.judgements import (
    BenchNotFoundError,
    BenchRunningError,
    JudgementNotFoundError,
    TooManyJudgementsError,
    Verdict,
)
from schemas.errors import InvalidInputError, NoThreadError
from schemas.storage.erasure import Target
from schemas.storage.erasure_count import ErasedMeanwhileError
from tests.support.live import no_thread_begins

SHELF = "bench-shelf"
DOCUMENT_IDS = [f"d{n}" for n in range(15)]
OFFICIAL = {
    "success_at_3": Success @ 3,
    "mrr": RR @ 10,
    "ndcg_at_10": nDCG @ 10,
    "recall_at_5": R @ 5,
    "recall_at_10": R @ 10,
}


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.sampled_from(DOCUMENT_IDS), max_size=15, unique=True),
    st.dictionaries(st.sampled_from(DOCUMENT_IDS), st.integers(0, 4), min_size=1),
)
def test_measures_agree_with_ir_measures(ranking, judgements):
    judgements["relevant"] = 1
    qrels = [ir_measures.Qrel("q", each, score) for each, score in judgements.items()]
    run = [ir_measures.ScoredDoc("q", each, -float(place)) for place, each in enumerate([*ranking, "irrelevant"])]
    expected = ir_measures.calc_aggregate(OFFICIAL.values(), qrels, run)
    ours = quality([*ranking, "irrelevant"], judgements)
    assert {name: getattr(ours, name) for name in MEASURES} == pytest.approx(
        {name: expected[measure] for name, measure in OFFICIAL.items()}
    )


@pytest.fixture
def folder(tmp_path):
    """`folder(**{part: text})`: a query set with these parts instead of the usual ones."""

    def write(corpus='{"_id": "a", "text": "zebra"}\n', queries=None, judgements=None):
        (tmp_path / "qrels").mkdir(exist_ok=True)
        queries = queries or '{"_id": "1", "text": "zebra"}\n{"_id": "2", "text": "mouse"}\n'
        judgements = judgements or "query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t0\n2\ta\t0\n"
        for name, text in (("corpus.jsonl", corpus), ("queries.jsonl", queries), ("qrels/test.tsv", judgements)):
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


def test_a_query_set_is_its_queries_with_something_relevant_and_another_folder_refused_by_what_it_lacks(folder):
    found = read_query_set(folder())
    [query] = found.queries
    assert (query.id, query.text, query.judgements) == ("1", "zebra", {"a": 2, "b": 0})
    assert found.corpus.name == "corpus.jsonl"
    assert found.name == folder().name
    for missing in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        (folder() / missing).unlink()
        with pytest.raises(InvalidInputError, match=missing):
            read_query_set(found.corpus.parent)


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"queries": '{"_id": 1, "text": "x"}\n'}, r"queries.jsonl:1: has an '_id'"),
        ({"queries": '{"_id": "1", "text": "x"}\n' * 2}, r"queries.jsonl:2: has an '_id'"),
        ({"queries": '{"_id": "1", "text": " "}\n'}, r"queries.jsonl:1: query is empty"),
        ({"judgements": "1\ta\tgood\n"}, r"test.tsv:1: is not a query's id"),
        ({"judgements": "1\ta\t99999\n"}, r"test.tsv:1: is not a query's id"),
    ],
)
def test_a_wrong_query_set_is_refused_by_line(folder, parts, complaint):
    with pytest.raises(InvalidInputError, match=complaint):
        read_query_set(folder(**parts))


@pytest.fixture(scope="module")
def engine(choice_of, embeddings, open_engine, shelve):
    shelve(SHELF, {"a": "zebra zebra", "b": "mouse in the house", "c": "elephant"})
    return open_engine((SemanticOracle(embeddings), LexicalOracle()), choice_of(), fetch_multiplier=1)


def test_each_oracle_is_measured_alone_and_all_of_them_together(folder, engine):
    query_set = read_query_set(folder(judgements="1\ta\t1\n2\tb\t2\n2\tc\t1\n"))
    told = []
    bench = Bench(engine, query_set.queries, SHELF, 1, "smoothed", on_query=told.append)
    runs = bench.runs(["semantic", "lexical"])
    assert [(run.name, run.oracles) for run in runs] == [
        ("semantic", ("semantic",)),
        ("lexical", ("lexical",)),
        ("fused-scores", ("semantic", "lexical")),
        ("fused-rrf", ("semantic", "lexical")),
        ("fused", ("semantic", "lexical")),
    ]
    assert [run.name for run in bench.runs(["lexical"])] == ["lexical"]
    assert told[:10] == [run.name for run in runs for _ in range(2)]
    lexical = runs[1]
    assert [each.ranking for each in lexical.asked] == [("a",), ("b",)]
    assert (lexical.quality.mrr, lexical.quality.recall_at_10, lexical.failures) == (1.0, 0.75, 0)
    assert 0 < lexical.latencies_ms(50, 95)["p50"] <= lexical.latencies_ms(50, 95)["p95"]
    [missed] = bench.missed(lexical)
    [explanation] = missed.explanations
    assert (missed.asked.query.id, explanation.doc_id, explanation.reason) == ("2", "c", "no oracle found it")
    assert explanation.oracles["lexical"].reason == "not among the first 1"


def test_a_failing_oracle_is_counted(folder, engine, shelve):
    strange = shelve("bench-strange", {"a": "zebra"}, embedding_model="words-2")
    bench = Bench(engine, read_query_set(folder()).queries, strange, 5, "smoothed")
    [lexical] = bench.runs(["lexical"])
    assert lexical.failures == 0
    with pytest.raises(EmbeddingMismatchError):
        bench.runs(["semantic", "lexical"])


ANA, BEN, ADMIN = Asker("ana"), Asker("ben"), Asker("root", sees_all=True)


@pytest.fixture
def judgements(catalog):
    return Judgements(catalog)


@pytest.fixture
def keep(judgements):
    def keep(asker, question, document, grade=1, collection="docs"):
        verdict = Verdict(question, collection, document, grade)
        return judgements.keep(verdict, asker=asker, since=judgements.erasures())

    return keep


def shown(judgements, asker, **chosen):
    found, total, _ = judgements.page(asker=asker, limit=100, **chosen)
    assert total == len(found)
    return [(each.verdict.question, each.verdict.document_id, each.verdict.grade) for each in found]


def test_a_later_verdict_takes_the_place_of_the_earlier_and_is_its_owners_alone(judgements, keep):
    keep(ANA, "when?", "a")
    keep(ANA, "when?", "b")
    keep(ANA, "when?", "a", grade=0)
    assert shown(judgements, ANA) == [("when?", "a", 0), ("when?", "b", 1)]
    kept = keep(ANA, "when?", "b", grade=0)
    keep(BEN, "when?", "a", grade=0)
    assert shown(judgements, BEN) == [("when?", "a", 0)]
    assert len(shown(judgements, ADMIN)) == 3
    with pytest.raises(JudgementNotFoundError):
        judgements.forget(kept.id, asker=BEN)
    judgements.forget(kept.id, asker=ANA)
    assert shown(judgements, ANA) == [("when?", "a", 0)]


def test_pages_go_on_where_the_one_before_ended(judgements, keep):
    for number in range(5):
        keep(ANA, f"q{number}", "a")
    first, total, cursor = judgements.page(asker=ANA, limit=3)
    rest, _, end = judgements.page(asker=ANA, limit=3, cursor=cursor)
    assert [each.verdict.question for each in (*first, *rest)] == ["q4", "q3", "q2", "q1", "q0"]
    assert (total, end) == (5, None)


def test_there_are_only_so_many(judgements, keep, monkeypatch):
    monkeypatch.setattr(module, "MAX_JUDGEMENTS", 2)
    keep(ANA, "a?", "a")
    keep(ANA, "b?", "a")
    with pytest.raises(TooManyJudgementsError):
        keep(ANA, "c?", "a")
    keep(ANA, "b?", "a", grade=0)
    keep(BEN, "c?", "a")
    assert len(shown(judgements, ANA)) == 2


def test_questions_have_something_relevant_and_count_the_latest_verdict(judgements, keep):
    keep(ANA, "first?", "a")
    keep(BEN, "first?", "a", grade=0)
    keep(ANA, "second?", "b", grade=0)
    keep(ANA, "third?", "c", collection="others")
    assert [(each.text, dict(each.judgements)) for each in judgements.questions("docs", asker=ANA)] == [
        ("first?", {"a": 1})
    ]
    # To an administrator the latest is Ben's, and finds nothing relevant.
    assert judgements.questions("docs", asker=ADMIN) == ()


def test_erasure_takes_what_names_a_document_and_what_is_of_a_user_and_what_was_judged_before_is_not_kept(
    judgements, keep
):
    keep(ANA, "when?", "a")
    keep(BEN, "when?", "a")
    keep(ANA, "when?", "b")
    keep(ANA, "when?", "a", collection="others")
    assert judgements.erase(Target(collection="docs", document_ids=frozenset({"a"}))) == 2
    assert len(shown(judgements, ADMIN)) == 2
    assert judgements.erase(Target(owner="ana")) == 2
    assert shown(judgements, ADMIN) == []
    since = judgements.erasures()
    judgements.erase(Target(owner="somebody"))
    with pytest.raises(ErasedMeanwhileError):
        judgements.keep(Verdict("when?", "docs", "a", 1), asker=ANA, since=since)


@pytest.fixture
def benches(catalog, clock):
    return StoredBenches(catalog, clock)


def test_one_measurement_runs_at_a_time_until_it_ends_or_is_lost(benches, clock):
    engine, judged = Mock(**{"available.return_value": ["vector"]}), Mock(**{"questions.return_value": ("when?",)})
    with no_thread_begins(), pytest.raises(NoThreadError):
        BenchRunner(engine, judged, benches, Mock(), oracles=["vector"], fusion="rrf").start("docs", asker=ANA)
    first = benches.begin("docs", 2, 10, asker=ANA)
    with pytest.raises(BenchRunningError):
        benches.begin("docs", 2, 10, asker=BEN)
    assert benches.tell(first.id, 4)
    clock.now += LOST_AFTER_SECONDS + 1
    assert (benches.one(first.id, asker=ANA).status, benches.one(first.id, asker=ANA).done) == ("failed", 4)
    second = benches.begin("docs", 2, 10, asker=BEN)
    benches.finish(second.id, {"runs": [], "questions": []})
    assert benches.one(second.id, asker=BEN).result == {"runs": [], "questions": []}
    assert benches.begin("docs", 1, 5, asker=ANA).status == "running"


def test_a_cancelled_measurement_stays_cancelled_and_the_oldest_are_forgotten_and_those_of_an_erased_user(benches):
    begun = benches.begin("docs", 2, 10, asker=ANA)
    with pytest.raises(BenchNotFoundError):
        benches.end(begun.id, asker=BEN)
    assert benches.end(begun.id, asker=ANA).status == "cancelled"
    assert not benches.tell(begun.id, 5)
    benches.finish(begun.id, {"runs": [], "questions": []})
    assert benches.one(begun.id, asker=ADMIN).status == "cancelled"
    benches.end(begun.id, asker=ANA)
    assert benches.all(asker=ANA) == []
    for _ in range(52):
        benches.finish(benches.begin("docs", 1, 1, asker=ANA).id, {})
    assert len(benches.all(asker=ANA)) == 50
    assert benches.erase(Target(collection="docs")) == 0
    assert benches.erase(Target(owner="ana")) == 50
    assert benches.all(asker=ADMIN) == []
