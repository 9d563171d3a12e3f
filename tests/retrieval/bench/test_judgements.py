"""Judgements and measurements as the catalogue keeps them: whose they are, how many, and what erasure takes."""

import pytest

from retrieval.bench import judgements as module
from retrieval.bench.judgements import Judgements
from retrieval.bench.stored_benches import LOST_AFTER_SECONDS, StoredBenches
from schemas.access.owners import Asker
from schemas.contracts.judgements import (
    BenchNotFoundError,
    BenchRunningError,
    JudgementNotFoundError,
    TooManyJudgementsError,
    Verdict,
)
from schemas.storage.erasure import Target
from schemas.storage.erasure_count import ErasedMeanwhileError

ANA, BEN, ADMIN = Asker("ana"), Asker("ben"), Asker("root", sees_all=True)


@pytest.fixture
def catalog(catalogs):
    return catalogs()


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
