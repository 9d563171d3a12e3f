"""The reports of watchers reach all workers."""

import json
from dataclasses import asdict, replace

import pytest

from retrieval.watching import stored_reports
from retrieval.watching.stored_reports import WatcherNotFoundError, Watchers
from schemas.access.owners import Asker
from schemas.contracts.watchers import (
    LOST,
    LOST_AFTER_SECONDS,
    MAX_NAME_CHARACTERS,
    RETRYING,
    STOPPED,
    WATCHING,
    FailedFile,
    WatcherReport,
)
from schemas.errors import ConflictError, InvalidInputError
from schemas.storage.erasure import Target

REPORT = WatcherReport(
    "one:1",
    WATCHING,
    "rag-context",
    files=3,
    failed=1,
    failures=(FailedFile("a\0.txt", "is not UTF-8"),),
    reason="ünï",
)


@pytest.fixture
def watchers(catalogs, clock):
    return Watchers(catalogs(), clock)


@pytest.mark.parametrize("catalogs", ["sqlite", "postgresql"], indirect=True)
def test_another_worker_finds_a_report(watchers, catalogs, clock):
    told = watchers.report("docs", REPORT, asker=Asker())
    assert (told.name, told.state, told.report) == ("docs", WATCHING, REPORT)
    watchers.report("code", replace(REPORT, state=RETRYING), asker=Asker())
    other = Watchers(catalogs(), clock)
    assert [(each.name, each.state) for each in other.all(asker=Asker())] == [("code", RETRYING), ("docs", WATCHING)]
    assert other.one("docs", asker=Asker()) == told


def test_a_watcher_that_does_not_report_is_lost_until_it_does_unless_it_stopped(watchers, clock):
    watchers.report("docs", REPORT, asker=Asker())
    clock.now += LOST_AFTER_SECONDS
    assert watchers.one("docs", asker=Asker()).state == WATCHING
    clock.now += 0.001
    assert watchers.one("docs", asker=Asker()).state == LOST
    assert watchers.report("docs", REPORT, asker=Asker()).state == WATCHING
    watchers.report("docs", replace(REPORT, state=STOPPED), asker=Asker())
    clock.now += 10 * LOST_AFTER_SECONDS
    assert watchers.one("docs", asker=Asker()).state == STOPPED


def test_another_instance_gets_the_name_only_when_the_first_stopped_or_is_lost(watchers, clock):
    other = replace(REPORT, instance="two:2")
    first = watchers.report("docs", REPORT, asker=Asker())
    clock.now += LOST_AFTER_SECONDS
    with pytest.raises(ConflictError, match="is running as one:1") as refused:
        watchers.report("docs", other, asker=Asker())
    assert refused.value.details["reported_at"] == first.reported_at
    assert watchers.one("docs", asker=Asker()).report == REPORT
    clock.now += 0.001
    watchers.report("docs", other, asker=Asker())
    with pytest.raises(ConflictError, match="is running as two:2"):
        watchers.report("docs", REPORT, asker=Asker())
    watchers.report("docs", replace(other, state=STOPPED), asker=Asker())
    assert watchers.report("docs", REPORT, asker=Asker()).report == REPORT


def test_the_names_of_folders_are_valid_and_others_refused(watchers):
    for name in ("My Notes", "Документы", "a'b\"c%", "x" * MAX_NAME_CHARACTERS):
        watchers.report(name, REPORT, asker=Asker())
        assert watchers.one(name, asker=Asker()).name == name
    for name in ("", ".", "..", "a/b", "a\nb", "a\0b", "x" * (MAX_NAME_CHARACTERS + 1)):
        with pytest.raises(InvalidInputError, match="name must have"):
            watchers.report(name, REPORT, asker=Asker())
        with pytest.raises(WatcherNotFoundError):
            watchers.one(name, asker=Asker())


def test_the_number_of_an_owners_watchers_is_limited_and_they_can_be_forgotten(watchers, monkeypatch):
    monkeypatch.setattr(stored_reports, "MAX_WATCHERS", 2)
    ada, bob = Asker("key:ada"), Asker("key:bob")
    for name in ("docs", "code", "docs"):
        watchers.report(name, REPORT, asker=ada)
    with pytest.raises(ConflictError, match="You have 2 watchers already") as caught:
        watchers.report("more", REPORT, asker=ada)
    assert (caught.value.code, caught.value.details["limit"]) == ("too_many_watchers", 2)
    watchers.report("more", REPORT, asker=bob)
    watchers.forget("docs", asker=ada)
    watchers.report("more", REPORT, asker=ada)
    watchers.report("docs", REPORT, asker=Asker())
    watchers.forget("docs", asker=Asker())
    assert watchers.all(asker=Asker()) == []
    for ask in (watchers.one, watchers.forget):
        with pytest.raises(WatcherNotFoundError, match="'docs' not found"):
            ask("docs", asker=Asker())


def test_an_erasure_leaves_its_documents_out_of_all_reports_whatever_an_earlier_build_told_of_them(watchers, catalogs):
    told = {**asdict(REPORT), "failures": [], "passed_over": [{"path": "secret.bin", "reason": "is no document"}]}
    for name, failed in (("docs", "plans/secret.md"), ("notes", "other.md")):
        watchers.report(name, replace(REPORT, failures=(FailedFile(failed, "is damaged"),)), asker=Asker("ana"))
    catalog = catalogs()
    catalog.commit(
        lambda transaction: transaction.run(
            "INSERT INTO watchers (owner, audience, name, reported_at_ms, report) VALUES ('bob', '', 'old', 1, ?)",
            (json.dumps(told),),
        )
    )
    assert watchers.erase(Target(sources=frozenset({"plans/secret.md"}))) == 1
    with catalog.read() as transaction:
        stored = " ".join(row[0] for row in transaction.rows("SELECT report FROM watchers"))
    assert ("secret" in stored, "other.md" in stored) == (False, True)
    assert watchers.erase(Target(owner="ana")) == 2
