"""While the engine hangs, reads come from the catalogue at their usual speed; afterwards everything is as before."""

import os
import signal
import threading
import time

import pytest

from tests.durability.processes import alive
from tests.durability.workload import (
    GATHERED_FROM_THE_CATALOGUE,
    HEAL_SECONDS,
    PAUSE_SECONDS,
    BruteForce,
    assert_engine_equals_catalogue,
    create,
    documents,
    healed,
    percentile,
    running,
)
from tests.support.live import eventually, live_service

THREADS = 8


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with live_service(
        tmp_path_factory.mktemp("frozen"), threads=THREADS, memory_vectors_mb=0, exact_ms=0, recall=0
    ) as service:
        yield service


@pytest.fixture
def frozen(service):
    """The process id of the engine, which is stopped now and is killed by the keeper some ten seconds later."""
    healed(service)
    pid = service.engine_pid
    os.kill(pid, signal.SIGSTOP)
    yield pid
    if alive(pid):
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def given(service, collection):
    given = documents(400, seed=5, section="a")
    create(service, collection, given)
    return given


def test_reads_health_and_vector_queries_are_answered_while_the_engine_is_frozen(service, collection, given, frozen):
    base = f"{service.url}/collections/{collection}"
    truth, reads, reports, plans, wrong = BruteForce(given), [], [], [], []

    def timed(session, method, url, **arguments):
        began = time.monotonic()
        answer = session.request(method, url, timeout=15, **arguments)
        assert answer.status_code == 200, answer.text
        return answer.json(), time.monotonic() - began

    def read(stopping):
        with service.session() as session:
            while not stopping.is_set():
                page, seconds = timed(session, "GET", f"{base}/documents", params={"where": '{"section":"a"}'})
                reads.append(seconds)
                assert (page["count"], page["total"]) == (100, 400)
                stopping.wait(PAUSE_SECONDS)

    def check_health(stopping):
        with service.session() as session:
            while not stopping.is_set():
                report, seconds = timed(session, "GET", f"{service.url}/health")
                reports.append((report["status"], seconds))
                stopping.wait(PAUSE_SECONDS)

    def query(stopping):
        with service.session() as session:
            while not stopping.is_set():
                vector = given[len(plans) % len(given)]["embedding"]
                body = {"query_embedding": vector, "top_k": 10, "where": {"section": "a"} if len(plans) % 2 else None}
                found, _ = timed(session, "POST", f"{base}/query", json=body)
                # These answers came while the engine was still the frozen one.
                plans.append((found["plan"], service.engine_pid == frozen))
                if [each["id"] for each in found["results"]] != truth.nearest(vector, 10):
                    wrong.append(found)
                stopping.wait(PAUSE_SECONDS)

    with running([read, check_health, query, query]):
        eventually(lambda: service.engine_pid not in (None, frozen), complaint=service.tail)
    assert not wrong
    assert percentile(reads, 0.95) < 1.0
    assert max(seconds for _, seconds in reports) < 3.0
    assert "degraded" in {status for status, _ in reports}
    during = {plan for plan, was_frozen in plans if was_frozen}
    assert during
    assert during <= GATHERED_FROM_THE_CATALOGUE
    healed(service)
    assert_engine_equals_catalogue(service, collection)


def test_waiting_writers_leave_threads_for_readers(service, collection, given, frozen):
    base = f"{service.url}/collections/{collection}"
    answers, reads = [], []
    late = [documents(1, seed=number, section="late") for number in range(3 * THREADS)]

    def write(batch):
        with service.session() as session:
            answers.append(session.post(f"{base}/documents", json={"documents": batch}, timeout=60).status_code)

    writers = [threading.Thread(target=write, args=(batch,)) for batch in late]
    for writer in writers:
        writer.start()
    with service.session() as session:

        def all_stored():
            began = time.monotonic()
            page = session.get(f"{base}/documents", params={"where": '{"section":"late"}'}, timeout=15).json()
            reads.append(time.monotonic() - began)
            return page["total"] == len(late)

        # All of them are stored and readable while the writers that may wait are still waiting.
        eventually(all_stored, complaint=service.tail)
        assert service.engine_pid == frozen
        assert sum(writer.is_alive() for writer in writers) > 0
        for _ in range(50):
            all_stored()
        assert service.engine_pid == frozen
        assert percentile(reads, 0.95) < 1.0
        vector = late[0][0]["embedding"]
        found = session.post(f"{base}/query", json={"query_embedding": vector, "top_k": 1}, timeout=15).json()
        assert (found["plan"], found["results"][0]["id"]) == ("scan", late[0][0]["id"])
    for writer in writers:
        writer.join(60)
    assert set(answers) <= {201, 202}
    assert 202 in answers
    healed(service, seconds=HEAL_SECONDS)
    assert_engine_equals_catalogue(service, collection)
