"""While the engine hangs, reads come from the catalogue without waiting for it; afterwards everything is as before."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.durability.processes import alive, keeper
from tests.durability.workload import (
    GATHERED_FROM_THE_CATALOGUE,
    PAUSE_SECONDS,
    BruteForce,
    ask,
    assert_engine_equals_catalogue,
    create,
    documents,
    healed,
    nearest,
    running,
)
from tests.support.live import PATIENCE_SECONDS, eventually, live_service

THREADS = 8
FEW = 3


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
    truth, wrong = BruteForce(given), []
    # Each answer, and whether it came while the engine was still the frozen one.
    pages, reports, plans = [], [], []

    def repeated(ask_once, found):
        def run(stopping):
            while not stopping.is_set():
                answer = ask_once()
                found.append((answer, service.engine_pid == frozen))
                stopping.wait(PAUSE_SECONDS)

        return run

    def page():
        found = ask(service, "GET", f"/collections/{collection}/documents", params={"where": '{"section":"a"}'})
        return found["count"], found["total"]

    def query():
        vector = given[len(plans) % len(given)]["embedding"]
        body = {"query_embedding": vector, "top_k": 10, "where": {"section": "a"} if len(plans) % 2 else None}
        found = ask(service, "POST", f"/collections/{collection}/query", json=body)
        if [each["id"] for each in found["results"]] != truth.nearest(vector, 10):
            wrong.append(found)
        return found["plan"]

    asking = [
        repeated(page, pages),
        repeated(lambda: ask(service, "GET", "/health")["status"], reports),
        repeated(query, plans),
        repeated(query, plans),
    ]
    with running(asking):
        eventually(lambda: service.engine_pid not in (None, frozen), complaint=service.tail)
    assert not wrong
    assert {found for found, _ in pages} == {(100, 400)}
    assert "degraded" in {status for status, _ in reports}
    # A read that waited for the engine would have been answered by the next one.
    assert all(sum(was_frozen for _, was_frozen in each) > FEW for each in (pages, reports, plans))
    assert {plan for plan, was_frozen in plans if was_frozen} <= GATHERED_FROM_THE_CATALOGUE
    healed(service)
    assert_engine_equals_catalogue(service, collection)


@contextmanager
def keeper_held(service):
    """Let nobody replace the engine."""
    pid = keeper(service)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_waiting_writers_leave_threads_for_readers(service, collection, given, frozen):
    late = [documents(1, seed=number, section="late") for number in range(3 * THREADS)]
    answers = []

    def write(batch):
        with service.session() as session:
            url = f"{service.url}/collections/{collection}/documents"
            answers.append(session.post(url, json={"documents": batch}, timeout=PATIENCE_SECONDS).status_code)

    def all_stored():
        found = ask(service, "GET", f"/collections/{collection}/documents", params={"where": '{"section":"late"}'})
        return found["total"] == len(late)

    with keeper_held(service), ThreadPoolExecutor(len(late)) as pool:
        writing = [pool.submit(write, batch) for batch in late]
        # All of them are stored and readable while the writers that may wait are still waiting.
        eventually(all_stored, complaint=service.tail)
        assert not all(each.done() for each in writing)
        vector = late[0][0]["embedding"]
        assert nearest(service, collection, vector) == ([late[0][0]["id"]], "scan")
        assert service.engine_pid == frozen
        for each in writing:
            each.result(PATIENCE_SECONDS)
    assert set(answers) <= {201, 202}
    assert 202 in answers
    healed(service)
    assert_engine_equals_catalogue(service, collection)
