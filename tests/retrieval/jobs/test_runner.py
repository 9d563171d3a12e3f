"""Which files are worked on at the same time, in which order, and what is left alone for a while."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from providers.outbound import deadlines
from retrieval.jobs import runner as running
from retrieval.jobs.runner import JobRunner, ServiceCalls
from retrieval.reading import DocumentReader
from schemas.access.owners import Asker
from schemas.errors import BusyError, UnavailableError
from tests.support.live import eventually


@pytest.fixture
def runner(parts):
    """`runner` works on `parts`, by the time in `now`. Each collection has a connection of its own, which is another one
    when it is in `changed`; texts with HANG hang while they are wanted. `seen` are the files that were embedded, by the
    first word of each."""
    parts.seconds, parts.seen, parts.tidied, parts.changed = 0.0, [], [], set()

    def embed(connection, texts):
        parts.seen.append(texts[0].split()[0])
        if "HANG" in texts[0]:
            with parts.calls.call():
                while deadlines.seconds_left() and not parts.stopping.wait(running.LOOK_SECONDS):
                    pass
                raise UnavailableError("It was cut off")
        if parts.down:
            raise UnavailableError("Nobody is there")
        return connection.embed(texts)

    parts.embed, parts.down, parts.calls = embed, False, ServiceCalls(lambda: parts.seconds)
    runner = JobRunner(
        *(parts.jobs, parts.spool, parts.work),
        calls=parts.calls,
        connections_of=lambda places: {each: (each[1], str(each[1] in parts.changed)) for each in places},
        reader=DocumentReader(),
        helpers=[SimpleNamespace(rest=lambda: None, close=lambda: None)],
        stopping=parts.stopping,
        tidy=lambda: parts.tidied.append(parts.seconds),
        clock=lambda: parts.seconds,
    )
    yield runner
    runner.stop()


def files(owner, *names):
    return [(f"{owner}{name}.md", f"{owner}{name} words") for name in names]


def status(parts, job_id):
    return parts.jobs.one(job_id, asker=Asker(sees_all=True)).status


def test_texts_that_hang_hold_up_no_file_of_another_owner_for_long(parts, runner):
    held = parts.upload(*((f"{number}.md", "HANG") for number in range(9)), owner="ada")
    others = [parts.upload(*files(owner, 1, 2), owner=owner) for owner in ("bob", "eve")]
    runner.start()
    eventually(lambda: len(parts.seen) == 1)
    parts.seconds += running.SLOW_SECONDS
    eventually(lambda: {status(parts, each) for each in others} == {"done"})
    eventually(lambda: parts.seen.count("HANG") == running.MAX_OF_BOTH)
    parts.seconds += running.SLOW_SECONDS
    last = parts.upload(*files("last", 1), owner="bob")
    eventually(lambda: status(parts, last) == "done")
    assert (status(parts, held), parts.seen.count("HANG")) == ("running", running.MAX_OF_BOTH)


@pytest.mark.parametrize("owners", [["ada", "eve"], [""]])
def test_connections_that_hang_hold_up_no_others_and_end_with_their_jobs(parts, runner, owners, monkeypatch):
    monkeypatch.setattr(running, "MAX_THREADS", 64)
    monkeypatch.setattr(running, "HANGING_ROOM", 16)
    hung, both = [f"{parts.collection}-{number}" for number in range(28)], (("a.md", "HANG"), ("b.md", "HANG"))
    jobs = [parts.upload(*both, into=each, owner=owners[at % len(owners)]) for at, each in enumerate(hung)]
    runner.start()

    def goes_on():
        parts.seconds += running.SLOW_SECONDS
        runner.call()
        return {each.connection[0] for each in runner._now_under_way()} == {*hung}

    eventually(lambda: len(parts.seen) == (running.MAX_OF_OWNER * len(owners) if owners[0] else running.MAX_FILES))
    eventually(lambda: goes_on() and parts.seconds >= 20 * running.SLOW_SECONDS)
    assert len(parts.seen) < running.MAX_THREADS - running.MAX_FILES
    last = [parts.upload(*files(f"{each}last", 1), owner=each) for each in ("bob", *owners)]
    eventually(lambda: (goes_on(), {status(parts, each) for each in last})[1] == {"done"})
    parts.seconds += running.TIDY_SECONDS
    eventually(lambda: len(parts.tidied) == 2)
    parts.changed.add(hung[-1])
    again = len(parts.seen) + 1
    eventually(lambda: goes_on() and len(parts.seen) >= again)
    for each in jobs:
        parts.jobs.cancel(each, asker=Asker(sees_all=True))
    eventually(lambda: (goes_on(), not runner._now_under_way())[1])
    assert runner._failures == {}


def test_an_owner_whose_connections_hang_and_a_collection_that_takes_no_writes_hold_up_nobody_else(
    parts, runner, monkeypatch
):
    monkeypatch.setattr(running, "MAX_THREADS", 20)
    parts.record.check = lambda job: parts.refuse() if job.wanted.collection == "busy" else None
    parts.refuse = Mock(side_effect=BusyError("The index lags", collection="busy"))
    for number in range(16):
        parts.upload(("a.md", "HANG"), into=f"{parts.collection}-{number}", owner="ada")
    parts.upload(*files("eve", 1, 2), into="busy", owner="eve")
    runner.start()

    def goes_on():
        parts.seconds += running.SLOW_SECONDS
        return True

    eventually(lambda: goes_on() and parts.seconds > 200)
    last = parts.upload(*files("bob", 1, 2), owner="bob")
    eventually(lambda: goes_on() and status(parts, last) == "done")
    assert (len(parts.seen), *runner._failures) == (6 + 2, (None, "busy"))


@pytest.mark.parametrize("has_owners", [True, False])
def test_owners_or_where_there_are_none_jobs_take_turns_file_by_file(parts, runner, has_owners):
    names = {"ada": (1, 2, 3), "bob": (1, 2, 3), "eve": (1,)}
    jobs = [parts.upload(*files(name, *some), owner=name * has_owners) for name, some in names.items()]
    runner.start()
    eventually(lambda: {status(parts, each) for each in jobs} == {"done"})
    assert parts.seen == ["ada1", "bob1", "eve1", "ada2", "bob2", "ada3", "bob3"]


def test_a_connection_that_embeds_nothing_is_left_alone_longer_each_time_and_its_files_wait(parts, runner):
    parts.down = True
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
    parts.down = False
    eventually(lambda: runner._failures == {})
    parts.now += 10
    eventually(lambda: status(parts, job) == "done")


def test_what_a_stop_cannot_wait_for_has_not_begun_a_try(parts, runner, monkeypatch):
    parts.upload(("a.md", "HANG"))
    runner.start()
    eventually(lambda: parts.seen)
    with monkeypatch.context() as patch:
        patch.setattr(running, "STOP_SECONDS", 0)
        runner.stop()
    assert parts.jobs.begin(parts.jobs.due()[0])[1] == 1
