"""Which files are worked on at the same time, in which order, and what is left alone for a while."""

import threading
from itertools import count
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from providers.outbound import deadlines
from retrieval.jobs import ingesting
from retrieval.jobs import runner as running
from retrieval.jobs.runner import JobRunner
from retrieval.workers.worker_process import WorkerEndedError
from schemas.access.owners import Asker
from schemas.errors import BusyError, InvalidInputError, UnavailableError
from schemas.giving_way import LOOK_SECONDS, Questions
from tests.support.live import eventually
from wrapper.catalog import catalog


@pytest.fixture
def runner(parts, monkeypatch):
    """`runner` works on `parts`, by the time in `now`. Each collection has a connection of its own, which is another one
    when it is in `changed`; texts with HANG hang while they are wanted, and those with a word of `errors` fail, also
    where it is their collection. `seen` are the files that were embedded, by the first word of each."""
    monkeypatch.setattr(running, "LOOK_SECONDS", 0.05)
    parts.seconds, parts.seen, parts.tidied, parts.changed, parts.errors = 0.0, [], [], set(), {}

    def embed(connection, texts):
        parts.seen.append(texts[0].split()[0])
        if "HANG" in texts[0]:
            while deadlines.seconds_left() and not parts.stopping.wait(running.LOOK_SECONDS):
                pass
            raise UnavailableError("It was cut off")
        for word, error in parts.errors.items():
            if word in f"{texts[0]} {threading.current_thread().name}":
                raise error()
        return connection.embed(texts)

    parts.embed = embed
    runner = JobRunner(
        parts.work,
        connections_of=lambda places: {each: (each[1], str(each[1] in parts.changed)) for each in places},
        workers=[SimpleNamespace(rest=lambda: None, close=lambda: None)],
        tidy=lambda: parts.tidied.append(parts.seconds),
        clock=lambda: parts.seconds,
    )
    yield runner
    runner.stop()


def files(owner, *names):
    return [(f"{owner}{name}.md", f"{owner}{name} words") for name in names]


def status(parts, job_id):
    return parts.jobs.one(job_id, asker=Asker(sees_all=True)).status


def test_texts_that_hang_hold_up_no_file_of_another_owner(parts, runner):
    held = parts.upload(*((f"{number}.md", "HANG") for number in range(9)), owner="ada")
    others = [parts.upload(*files(owner, 1, 2), owner=owner) for owner in ("bob", "eve")]
    runner.start()
    eventually(lambda: {status(parts, each) for each in others} == {"done"})
    eventually(lambda: parts.seen.count("HANG") == running.OF_OWNER)
    last = parts.upload(*files("last", 1), owner="bob")
    eventually(lambda: status(parts, last) == "done")
    assert (status(parts, held), parts.seen.count("HANG")) == ("running", running.OF_OWNER)


@pytest.mark.parametrize("owners", [["ada", "eve"], [""]])
def test_connections_that_hang_hold_up_no_others_and_end_with_their_jobs(parts, runner, owners):
    hung, both = [f"{parts.collection}-{number}" for number in range(6)], (("a.md", "HANG"), ("b.md", "HANG"))
    jobs = [parts.upload(*both, into=each, owner=owners[at % len(owners)]) for at, each in enumerate(hung)]
    runner.start()
    eventually(lambda: len(parts.seen) == 2 * len(hung))
    last = [parts.upload(*files(f"{each}last", 1), owner=each) for each in ("bob", *owners)]
    eventually(lambda: {status(parts, each) for each in last} == {"done"})
    parts.seconds += running.TIDY_SECONDS
    eventually(lambda: len(parts.tidied) == 2)
    parts.changed.add(hung[-1])
    again = len(parts.seen) + 2
    eventually(lambda: len(parts.seen) == again)
    for each in jobs:
        parts.jobs.cancel(each, asker=Asker(sees_all=True))
    eventually(lambda: not runner._now_under_way())
    assert runner._failures == {}


def test_the_work_on_files_gives_way_to_questions(parts, runner, monkeypatch):
    waits, ticks = [], count(1_000.0, 0.001)
    questions = Questions(lambda: next(ticks) + sum(waits), waits.append)
    for room in (running, ingesting, catalog):
        monkeypatch.setattr(room, "QUESTIONS", questions)
    embed = parts.embed

    def embed_after_a_while(connection, texts):
        waits.append(0.0)
        for _ in range(10):
            next(ticks)
        return embed(connection, texts)

    parts.embed = embed_after_a_while
    with questions.answering():
        questions.let_pass()
        job = parts.upload(*files("ada", 1), owner="ada")
        assert waits == []
        runner.start()
        eventually(lambda: status(parts, job) == "done")
    embedded = waits.index(0.0)
    assert LOOK_SECONDS in waits[:embedded]
    assert LOOK_SECONDS in waits[embedded:]


def test_an_owner_whose_connections_hang_leaves_threads_to_others(parts, runner, monkeypatch):
    monkeypatch.setattr(running, "MAX_THREADS", 12)
    for number in range(16):
        parts.upload(("a.md", "HANG"), into=f"{parts.collection}-{number}", owner="ada")
    runner.start()
    eventually(lambda: len(parts.seen) == 6)
    last = parts.upload(*files("bob", 1, 2), owner="bob")
    eventually(lambda: status(parts, last) == "done")
    assert len(parts.seen) == 6 + 2


@pytest.mark.slow
def test_files_that_fail_in_any_way_hold_up_none_beside_them(parts, runner, monkeypatch):
    parts.errors = {
        "REFUSED": lambda: InvalidInputError("is refused"),
        "KILLS": lambda: WorkerEndedError("The process ended"),
        "jobs limited": lambda: UnavailableError("429", error_type="rate_limit", retry_after_seconds=60),
        "jobs down": lambda: UnavailableError("Nobody is there"),
    }
    read = parts.work.reader.read

    def hang_at_pdfs(content, kind, **more):
        return parts.stopping.wait() if kind.name == "pdf" else read(content, kind, **more)

    monkeypatch.setattr(parts.work.reader, "read", hang_at_pdfs)
    refuse = Mock(side_effect=BusyError("The index lags", collection="busy"))
    parts.record.check = lambda job: refuse() if job.wanted.collection == "busy" else None
    bad = ("hangs.pdf", b"%PDF-"), ("kills.md", "KILLS"), ("refused.md", "REFUSED")
    waiting = [parts.upload(("a.md", "words"), into=into, owner="ada") for into in ("limited", "down", "busy")]
    job = parts.upload(*bad, *files("ada", *range(50)), owner="ada")
    runner.start()
    eventually(lambda: [each.status for each in parts.jobs.one(job, asker=Asker("ada")).files[3:]] == ["done"] * 50)
    told = [(each.status, each.code, each.tries) for each in parts.jobs.one(job, asker=Asker("ada")).files[:3]]
    assert told == [("reading", None, 0), ("queued", "text_not_embedded", 1), ("failed", "invalid_input", 0)]
    assert {status(parts, each) for each in waiting} == {"running"}
    assert runner._failures.keys() == {("limited", "False"), ("down", "False"), (None, "busy")}


def test_of_files_at_which_the_service_ended_one_is_worked_on_at_a_time(parts, runner):
    job_id = parts.upload(("a.md", "HANG"), ("b.md", "HANG"), ("c.md", "good"))
    for taken in ([], [(job_id, 0)]):  # by a process that is killed then
        parts.jobs.begin(parts.jobs.due(taken)[0])
    runner.start()
    eventually(lambda: sorted(parts.seen) == ["HANG", "good"])


@pytest.mark.parametrize("has_owners", [True, False])
def test_owners_or_where_there_are_none_jobs_take_turns_file_by_file(parts, runner, has_owners, monkeypatch):
    monkeypatch.setattr(running, "OF_CONNECTION", 1)
    names = {"ada": (1, 2, 3), "bob": (1, 2, 3), "eve": (1,)}
    jobs = [parts.upload(*files(name, *some), owner=name * has_owners) for name, some in names.items()]
    runner.start()
    eventually(lambda: {status(parts, each) for each in jobs} == {"done"})
    assert parts.seen == ["ada1", "bob1", "eve1", "ada2", "bob2", "ada3", "bob3"]


def test_a_connection_that_embeds_nothing_is_left_alone_longer_each_time_and_its_files_wait(parts, runner, monkeypatch):
    monkeypatch.setattr(running, "OF_CONNECTION", 1)
    parts.errors = {"": lambda: UnavailableError("Nobody is there")}
    parts.upload(*files("ada", 1), owner="ada")
    job = parts.upload(*files("bob", 1, 2), owner="bob")
    runner.start()
    for tries, seconds in ((1, 2), (2, 2), (3, 5), (4, 10)):
        told = {(parts.collection, "False"): (tries, parts.seconds + seconds)}
        eventually(lambda told=told: runner._failures == told)
        assert len(parts.seen) == 2 * tries, "a file, and then a text of no document"
        assert parts.seen[-2] == ("bob2", "ada1", "bob1", "ada1")[-tries], "of whom was served longest ago"
        parts.seconds += seconds
        parts.now += seconds
    parts.errors = {}
    eventually(lambda: runner._failures == {})
    parts.now += 10
    eventually(lambda: status(parts, job) == "done")


def test_a_file_waits_for_the_end_of_what_was_cancelled_of_the_same_document(parts, runner, monkeypatch):
    let_go, embed = threading.Event(), parts.embed
    monkeypatch.setattr(parts, "embed", lambda *asked: (embed(*asked), "older" in asked[1][0] and let_go.wait())[0])
    older = parts.upload(("a.md", "older words"), ("b.md", "older words"))
    runner.start()
    eventually(lambda: parts.seen == ["older"] * 2)
    parts.jobs.cancel(older, asker=Asker(sees_all=True))
    newer, other = parts.upload(("a.md", "newer words")), parts.upload(("c.md", "other words"), owner="bob")
    eventually(lambda: status(parts, other) == "done")
    assert (status(parts, newer), "newer" in parts.seen) == ("queued", False)
    let_go.set()
    eventually(lambda: status(parts, newer) == "done")


def test_what_a_stop_cannot_wait_for_has_not_begun_a_try(parts, runner, monkeypatch):
    parts.upload(("a.md", "HANG"))
    runner.start()
    eventually(lambda: parts.seen)
    with monkeypatch.context() as patch:
        patch.setattr(running, "STOP_SECONDS", 0)
        runner.stop()
    assert parts.jobs.begin(parts.jobs.due()[0])[1] == 1
