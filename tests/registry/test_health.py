"""Health of many connections: checked in parallel, each in time, without an exception."""

import threading
from itertools import count
from types import SimpleNamespace

import pytest

import providers.base
from providers.base import RagProvider
from registry.health import MAX_AT_A_TIME, HealthWatch
from registry.placeholders.resolving import Placeholders
from registry.stored_looks import KEPT, StoredLooks
from schemas.connections import Connection, HealthReport
from schemas.errors import InvalidInputError, UnavailableError
from schemas.storage import read_limits
from schemas.storage.erasure import Target
from tests.support.live import LIMITS_SECONDS, PATIENCE_SECONDS, eventually


@pytest.fixture
def patients(registry):
    """A provider whose check does what the connection's configuration says."""
    gate = threading.Event()
    checks = []

    class Patient(RagProvider):
        id, display_name = "patient", "Patient"

        @classmethod
        def connection_schema(cls):
            return {"type": "object", "properties": {"does": {"type": "string"}}, "required": ["does"]}

        def check(self):
            checks.append(self.config["does"])
            assert read_limits.current() is None, "others wait for it, too"
            match self.config["does"]:
                case "hangs":
                    assert gate.wait(PATIENCE_SECONDS)
                case "fails":
                    raise UnavailableError("It does not answer", error_type="network")
                case "breaks":
                    raise ZeroDivisionError("a secret detail")
            return {"collections_count": 2, "storage_bytes": 1024}

        def collections(self):
            return []

    registry.register(Patient)
    yield checks
    gate.set()


def connect(connections, *deeds):
    return [connections.create(Connection(does, "rag", "patient", {"does": does})) for does in deeds]


def test_a_report_has_the_standard_shape(connections, patients, monkeypatch, watch):
    ticks = count(step=0.25)  # of seconds
    monkeypatch.setattr(providers.base, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    [connection] = connect(connections, "works")
    with read_limits.limited(read_limits.ReadLimit(9.0, lambda: True)):
        report = watch().of(connection)
    assert (report.status, report.provider, report.error) == ("healthy", "patient", None)
    assert report.timestamp.endswith("+00:00")
    assert report.details["collections_count"] == 2
    assert report.details["storage_bytes"] == 1024
    assert report.details["response_time_ms"] == 250.0
    assert "url" in report.details


def test_placeholders_are_shown_as_they_were_written(registry, open_connections, looks):
    class Talkative(RagProvider):
        id, display_name = "talkative", "Talkative"

        @classmethod
        def connection_schema(cls):
            text = {"type": "string"}
            return {"type": "object", "properties": {"url": text, "deed": text}}

        def check(self):
            if self.config["deed"] == "fail":
                raise UnavailableError(f"{self.config['url']} is down", error_type="network")
            return {"seen": [self.config["url"]]}

        def collections(self):
            return []

    registry.register(Talkative)
    placeholders = Placeholders({"RAG_THEIR_URL": "http://planted.internal"})
    connections = open_connections(placeholders)
    for deed in ("fail", "work"):
        config = {"url": "${RAG_THEIR_URL}/v1", "deed": deed}
        connection = connections.create(Connection(f"talk-{deed}", "rag", "talkative", config))
        report = HealthWatch(connections, looks, limit_seconds=10, fresh_seconds=0).of(connection)
        assert report.details["url"] == "${RAG_THEIR_URL}/v1"
        assert "planted" not in str(report)


@pytest.mark.slow
def test_every_connection_gets_a_report_whatever_the_others_do_also_one_that_cannot_be_opened(
    connections, patients, watch, registry
):
    known = connect(connections, "hangs", "fails", "breaks", "works")
    for seconds in LIMITS_SECONDS:
        reports = watch(limit_seconds=seconds).of_all(known)
        if (said := [report.details.get("error_type") for report in reports]) == [
            "timeout",
            "network",
            "unknown",
            None,
        ]:
            break
    assert said == ["timeout", "network", "unknown", None]
    assert [report.status for report in reports] == ["unhealthy", "unhealthy", "unhealthy", "healthy"]
    assert reports[1].error == "It does not answer"
    assert "secret" not in str(reports[2])
    registry.register_missing("rag", "lost", "lost_client is not installed: pip install lost-client")
    lost = Connection("lost", "rag", "lost", {})
    connections._stored.add(lost)
    report = watch().of(lost)
    assert report.status == "unhealthy"
    assert "pip install lost-client" in report.message


def test_a_hanging_check_is_not_asked_a_second_time_and_a_connection_not_asked_in_time_says_so(
    connections, patients, watch
):
    [connection] = connect(connections, "hangs")
    watched = watch(limit_seconds=0.05)
    assert [watched.of(connection).details["error_type"] for _ in range(3)] == ["timeout"] * 3
    eventually(lambda: patients == ["hangs"])
    known = [connections.create(Connection(f"h{n:02}", "rag", "patient", {"does": "hangs"})) for n in range(20)]
    for seconds in LIMITS_SECONDS:
        said = sorted({each.message.partition(" within")[0] for each in watch(limit_seconds=seconds).of_all(known)})
        if said != ["Not asked"]:
            break
    assert said == ["No answer", "Not asked"]


def test_a_report_is_kept_for_a_moment_and_says_its_age_and_a_changed_connection_is_asked_again(
    connections, patients, watch, clock
):
    [connection] = connect(connections, "works")
    watched = watch(fresh_seconds=5, clock=clock)
    first = watched.of(connection)
    clock.now += 3
    second = watched.of(connection)
    assert (first.details["age_seconds"], second.details["age_seconds"]) == (0.0, 3.0)
    clock.now += 3
    assert watched.of(connection).details["age_seconds"] == 0.0
    assert len(patients) == 2
    changed = connections.change("works", config={"does": "fails"})
    assert watched.of(changed).status == "unhealthy"


def test_the_last_report_is_told_without_waiting_and_without_asking(connections, patients, watch):
    watched = watch(fresh_seconds=60)
    (well,) = connect(connections, "works")
    assert watched.last(well) is None
    watched.of(well)
    asked = len(patients)
    assert watched.last(well).status == "healthy"
    assert len(patients) == asked


def test_many_connections_are_asked_by_a_few_threads(connections, patients, watch):
    known = [connections.create(Connection(f"p{n:03}", "rag", "patient", {"does": "works"})) for n in range(150)]
    watched = watch(limit_seconds=60)
    reports = watched.of_all(known)
    assert {report.status for report in reports} == {"healthy"}
    assert watched.threads <= MAX_AT_A_TIME


def test_healthy_connections_are_asked_before_unhealthy_ones(connections, patients, monkeypatch, watch):
    """When more hang than there are threads, the healthy ones are asked first from the second check on."""
    unwell = [connections.create(Connection(f"a{n:02}", "rag", "patient", {"does": "fails"})) for n in range(20)]
    [well] = connect(connections, "works")
    watched = watch(limit_seconds=60)
    watched.of_all([*unwell, well])
    asked, submit = [], watched._threads.submit
    monkeypatch.setattr(watched._threads, "submit", lambda key, work: asked.append(key) or submit(key, work))
    watched.of_all([*unwell, well])
    assert asked[0] == repr(well)


@pytest.mark.slow
def test_a_connection_not_asked_because_others_hang_keeps_its_last_report(connections, patients, watch, clock):
    hanging = [connections.create(Connection(f"h{n:02}", "rag", "patient", {"does": "hangs"})) for n in range(20)]
    [well] = connect(connections, "works")
    watched = watch(limit_seconds=PATIENCE_SECONDS, clock=clock)
    assert watched.of(well).status == "healthy"
    watched._limit_seconds = 0.3
    watched.of_all(hanging)
    clock.now += 60
    report = watched.of(well)
    assert (report.status, report.details["age_seconds"]) == ("healthy", 60.0)
    assert patients.count("works") == 1


def test_a_model_that_has_just_embedded_for_a_user_is_not_checked(connections, world, watch):
    default = connections.find("default")
    watched = watch()
    connections.open("default", "embedding").embed(["of a user"])
    report = watched.look(default, recent_seconds=1000)
    assert (report.status, report.details["model"], report.details["dimension"]) == ("healthy", "words-1", 4)
    assert "response_time_ms" not in report.details
    assert world.embedded == [("words-1", "of a user")]
    watched.look(default, recent_seconds=0)
    assert len(world.embedded) == 2
    watched.of(default)
    assert len(world.embedded) == 3


def test_a_model_that_failed_for_a_user_is_checked(connections, world, watch):
    default, words = connections.find("default"), connections.open("default", "embedding")
    watched = watch()
    words.embed(["while all is well"])
    with pytest.raises(InvalidInputError):
        words.embed([" "])
    assert watched.look(default, recent_seconds=1000).status == "healthy"
    world.down.add("words-1")
    with pytest.raises(UnavailableError):
        words.embed(["when it is not"])
    assert watched.look(default, recent_seconds=1000).status == "unhealthy"
    world.down.clear()
    assert watched.look(default, recent_seconds=1000).status == "healthy"


def test_a_report_is_as_old_as_the_answer_it_relies_on(connections, world, watch, clock):
    """A check may rely on a recent answer, which is too old for a caller that wants a report of now."""
    default = connections.find("default")
    watched = watch(fresh_seconds=5, clock=clock)
    words = connections.open("default", "embedding")
    words.embed(["of a user"])
    words._answered_at -= 60
    assert watched.look(default, recent_seconds=1000).details["age_seconds"] >= 60
    assert watched.last(default).details["age_seconds"] >= 60
    assert watched.of(default).details["age_seconds"] == 0.0
    assert len(world.embedded) == 2


def test_the_history_is_the_same_for_all_workers_and_bounded(connections, patients, database, watch, clock):
    [well, ill] = connect(connections, "works", "fails")
    watched = watch(fresh_seconds=1, clock=clock)
    for _ in range(KEPT + 2):
        clock.now += 2
        watched.of_all([well, ill])
    another = HealthWatch(connections, StoredLooks(database), limit_seconds=10, fresh_seconds=1)
    history = another.history([well, ill])
    assert [len(history[each.id]) for each in (well, ill)] == [KEPT, KEPT]
    assert {look.status for look in history["works"]} == {"healthy"}
    assert {look.status for look in history["fails"]} == {"unhealthy"}
    times = [look.at for look in history["works"]]
    assert times == sorted(times)
    assert all(look.response_time_ms is not None for look in history["works"])


def test_the_history_of_a_connection_ends_with_it_and_with_the_erasure_of_who_made_it(
    connections, patients, looks, watch, database
):
    watched = watch()
    [well] = connect(connections, "works")
    watched.of(well)
    assert len(watched.history([well])["works"]) == 1
    changed = connections.change("works", config={"does": "fails"})
    assert watched.history([changed])["works"] == []
    watched.of(changed)
    assert [look.status for look in watched.history([changed])["works"]] == ["unhealthy"]
    connections.delete("works")
    [again] = connect(connections, "works")
    assert watched.history([again])["works"] == []
    # A look at what has been deleted meanwhile leaves nothing behind.
    looks.note(changed, HealthReport("healthy", "patient", "2026-01-01T00:00:00+00:00", "It works"))
    assert watched.history([changed, again])["works"] == []
    watched.of(again)
    [place.erase(Target(owner=again.of.owner)) for place in database.places]
    assert database.commit(lambda transaction: transaction.rows("SELECT id FROM connection_looks")) == []
