"""Clients that send or read a byte now and then cost nobody else anything, and are cut off in the end."""

import socket
import threading
from contextlib import ExitStack, contextmanager

import pytest
import requests

from tests.durability.load.large import EXPORT, TEXT, create_large, rest
from tests.support.live import PATIENCE_SECONDS, eventually, live_service
from wrapper.routes.document import CUT

THREADS = 8
PATIENT_SECONDS, IMPATIENT_SECONDS = 600, 2
HEAD = b"GET /collections HTTP/1.1\r\nHost: localhost\r\n"
BODY = b'POST /collections HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n{"name": "'
STREAM = (
    b"POST /collections/large/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    b'Transfer-Encoding: chunked\r\n\r\n4\r\n{"id\r\n'
)


@contextmanager
def _service(directory, seconds, **settings):
    with live_service(directory, workers=1, threads=THREADS, client_wait_seconds=seconds, **settings) as service:
        create_large(service)
        yield service


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    with _service(tmp_path_factory.mktemp("patient"), PATIENT_SECONDS, export_seconds=1) as service:
        yield service


@pytest.fixture(scope="module")
def impatient(tmp_path_factory):
    with _service(tmp_path_factory.mktemp("impatient"), IMPATIENT_SECONDS) as service:
        yield service


@contextmanager
def _clients(service, number, start, drips=b""):
    """Open connections that have sent `start` and slowly send the bytes of `drips`, one at a time."""
    stopping = threading.Event()
    with ExitStack() as stack:
        clients = [stack.enter_context(_connected(service)) for _ in range(number)]
        for client in clients:
            client.sendall(start)

        def drip():
            for byte in drips:
                if stopping.wait(0.3):
                    return
                for client in clients:
                    try:
                        client.send(bytes([byte]))
                    except OSError:
                        continue

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            yield clients
        finally:
            stopping.set()
            dripping.join()


def _connected(service):
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE_SECONDS)
    client.connect(("127.0.0.1", service.port))
    return client


SLOW = {
    "nothing": (b"", b""),
    "head": (HEAD, b"x" * 10_000),
    "body": (BODY, b"x" * 4_000),
    "stream": (STREAM, b"1\r\n \r\n" * 1_000),
    "answer": (EXPORT, b""),
}


@pytest.mark.parametrize(("start", "drips"), SLOW.values(), ids=SLOW)
def test_other_clients_are_answered_while_slow_ones_drip(patient, start, drips):
    with _clients(patient, THREADS, start, drips):
        for path in ("/collections", "/collections/large/documents/count", "/live", "/ready", "/health"):
            assert requests.get(patient.url + path, timeout=PATIENCE_SECONDS).status_code == 200
    assert requests.get(f"{patient.url}/collections", timeout=PATIENCE_SECONDS).status_code == 200


@pytest.mark.parametrize("kind", ["head", "body", "stream"])
def test_a_client_that_sends_too_slowly_gets_408_and_is_cut_off(impatient, kind):
    with _clients(impatient, 3, *SLOW[kind]) as clients:
        for client in clients:
            answer = rest(client)
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"Connection: close" in answer
            assert b'"code":"client_too_slow"' in answer


def test_a_client_that_sends_nothing_is_cut_off(impatient):
    with _clients(impatient, 3, b"") as clients:
        assert [rest(client) for client in clients] == [b"", b"", b""]


def test_a_client_that_does_not_read_is_cut_off(impatient):
    """The threads that served the three clients become free, and what they read for them is not kept."""
    with _clients(impatient, THREADS, EXPORT):
        for _ in range(3):
            requests.get(f"{impatient.url}/collections", timeout=PATIENCE_SECONDS)
        with _connected(impatient) as client:
            client.sendall(EXPORT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert len(rest(client)) > 10 * len(TEXT)


def test_an_export_that_is_not_read_holds_its_snapshot_for_a_limited_time(patient):
    before = patient.log.read_text().count(CUT)
    with _clients(patient, 3, EXPORT) as clients:
        eventually(lambda: patient.log.read_text().count(CUT) == before + 3)
        assert all(len(rest(client)) < 10 * len(TEXT) for client in clients)


def test_a_client_that_is_merely_slow_is_heard_to_the_end(patient):
    body = b'{"name": "slow-but-sure"}'
    head = b"POST /collections HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    start = head + b"Content-Length: %d\r\n\r\n" % len(body)
    with _clients(patient, 1, start, body) as (client,):
        assert rest(client).startswith(b"HTTP/1.1 201 ")
