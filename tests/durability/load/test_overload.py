"""When more requests come than there are threads and places to wait, the surplus is refused at once."""

import os
import resource
import socket
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import requests

from tests.durability.processes import workers
from tests.support.live import PATIENCE_SECONDS, eventually, live_service

THREADS, QUEUE = 8, 6
WRITES_HELD = THREADS - 2 + QUEUE
SIGNS = ("/health", "/ready", "/live", "/metrics")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    directory = tmp_path_factory.mktemp("overload")
    with live_service(directory, workers=1, threads=THREADS, max_queue=QUEUE) as service:
        yield service


@pytest.fixture
def url(service, session_of, collection):
    assert session_of.post(f"{service.url}/collections", json={"name": collection}).status_code == 201
    return f"{service.url}/collections/{collection}"


@pytest.fixture
def session_of(service):
    with service.session() as session:
        yield session


def _document(number, text="x"):
    return {"documents": [{"id": f"d{number}", "text": text, "embedding": [1.0, number]}]}


def test_writes_beyond_the_queue_are_refused_and_reads_go_on(service, session_of, url):
    writers = WRITES_HELD + 10
    refused = threading.Semaphore(0)

    def write(number):
        with service.session() as session:
            answer = session.post(f"{url}/documents", json=_document(number), timeout=PATIENCE_SECONDS)
        if answer.status_code == 503:
            refused.release()
        return answer

    holder = sqlite3.connect(service.data_dir / "catalog.sqlite", isolation_level=None)
    with ThreadPoolExecutor(writers) as pool:
        holder.execute("BEGIN IMMEDIATE")
        try:
            answers = [pool.submit(write, number) for number in range(writers)]
            for _ in range(writers - WRITES_HELD):
                assert refused.acquire(timeout=PATIENCE_SECONDS)
            for path in (f"{url}/documents", f"{url}/documents/count", *(service.url + sign for sign in SIGNS)):
                assert session_of.get(path, timeout=PATIENCE_SECONDS).status_code == 200
        finally:
            holder.execute("ROLLBACK")
            holder.close()
        found = [answer.result() for answer in answers]
    assert sorted(answer.status_code // 100 for answer in found) == [2] * WRITES_HELD + [5] * 10
    for answer in found:
        if answer.status_code == 503:
            assert (answer.json()["code"], answer.headers["Retry-After"]) == ("busy", "2")
    assert session_of.get(url).json()["count"] == WRITES_HELD
    assert session_of.post(f"{url}/documents", json=_document(1_000)).status_code == 201


def test_a_storm_is_answered_to_the_last_request(service, session_of, url):
    clients, each = 60, 10
    start = threading.Barrier(clients)

    def storm(number):
        statuses = []
        with requests.Session() as session:
            start.wait()
            for turn in range(each):
                if turn % 2:
                    answer = session.get(f"{url}/documents", params={"limit": 50}, timeout=PATIENCE_SECONDS)
                else:
                    body = _document(number * each + turn, "word " * 5_000)
                    answer = session.post(f"{url}/documents", json=body, timeout=PATIENCE_SECONDS)
                assert answer.status_code != 503 or answer.headers["Retry-After"]
                statuses.append(answer.status_code)
        return statuses

    with ThreadPoolExecutor(clients) as pool:
        answers = [pool.submit(storm, number) for number in range(clients)]
        for sign in SIGNS:
            assert session_of.get(service.url + sign, timeout=PATIENCE_SECONDS).status_code == 200
        statuses = [status for answer in answers for status in answer.result()]
    assert len(statuses) == clients * each
    assert set(statuses) <= {200, 201, 202, 503}
    assert session_of.get(url).json()["count"] == len([status for status in statuses if status in (201, 202)])
    eventually(lambda: service._is_healthy())
    assert "rag_refused_requests_total" in session_of.get(f"{service.url}/metrics").text


def test_a_worker_that_cannot_open_another_file_goes_on(service, session_of, url):
    """More connections arrive than the worker can accept: it answers the ones it has, and the others once it has
    room."""
    (worker,) = workers(service)
    soft, hard = resource.prlimit(worker, resource.RLIMIT_NOFILE)
    opened = [int(number) for number in os.listdir(f"/proc/{worker}/fd")]
    limit = max(opened) + 4
    with ExitStack() as stack:
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (limit, hard))
        stack.callback(resource.prlimit, worker, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(limit - len(opened) + 8):
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port)))
        eventually(lambda: len(os.listdir(f"/proc/{worker}/fd")) >= limit, complaint=service.tail)
        for _ in range(3):
            assert session_of.get(f"{service.url}/live").status_code == 200
    assert requests.get(url, timeout=PATIENCE_SECONDS).status_code == 200
    assert workers(service) == [worker]
