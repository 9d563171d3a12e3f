"""Answers a healthy engine does not give, from a stub that speaks its protocol."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from wrapper.engine.client import EngineClient
from wrapper.engine.errors import (
    EngineBrokenError,
    EngineConflictError,
    EngineRefusedError,
    EngineUnavailableError,
)

RACE = (500, b'{"error":"InternalError","message":"Error executing plan: Internal error: Error finding id"}')
FOUND = (200, b'{"ids":[["a"]]}')
VECTORS = np.ones((1, 3), dtype=np.float32)


@contextmanager
def engine_answering(*answers):
    """A stub engine that gives these answers one after the other; None closes the connection without one."""
    remaining, served = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            answer = remaining.pop(0)
            served.append(self.path)
            if answer is None:
                self.close_connection = True
                return
            status, body = answer
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def connected(address, pauses=None):
    client = EngineClient(lambda: address, sleep=(pauses if pauses is not None else []).append)
    try:
        yield client
    finally:
        client.close()


def query(address, pauses=None):
    with connected(address, pauses) as client:
        return client.query("an-id", VECTORS, 1)


def test_a_record_whose_vector_is_not_there_yet_is_asked_for_again():
    pauses = []
    with engine_answering(RACE, RACE, FOUND) as (address, served):
        assert query(address, pauses) == [["a"]]
    assert len(served) == 3
    assert pauses == [0.025, 0.025]


def test_one_whose_vector_never_comes_is_a_broken_index():
    pauses = []
    with engine_answering(*[RACE] * 11) as (address, _), pytest.raises(EngineBrokenError) as broken:
        query(address, pauses)
    assert "Error finding id" in broken.value.details["engine_message"]
    assert len(pauses) == 10


def test_a_kept_connection_that_was_closed_costs_one_repetition():
    with engine_answering(FOUND, None, FOUND) as (address, served), connected(address) as client:
        assert client.query("an-id", VECTORS, 1) == [["a"]]
        assert client.query("an-id", VECTORS, 1) == [["a"]]
    assert len(served) == 3


def test_an_engine_that_keeps_closing_is_unavailable():
    with engine_answering(FOUND, None, None) as (address, served), connected(address) as client:
        client.heartbeat()
        with pytest.raises(EngineUnavailableError):
            client.query("an-id", VECTORS, 1)
    assert len(served) == 3


def test_an_engine_that_moved_gets_new_connections():
    with engine_answering(FOUND) as (first, _), engine_answering(FOUND) as (second, served):
        addresses = [second, first]
        client = EngineClient(lambda: addresses[-1])
        client.query("an-id", VECTORS, 1)
        addresses.pop()
        client.query("an-id", VECTORS, 1)
        client.close()
    assert len(served) == 1


def test_a_creation_is_not_repeated_and_trusts_no_kept_connection():
    with engine_answering(FOUND, None) as (address, served), connected(address) as client:
        client.heartbeat()
        with pytest.raises(EngineUnavailableError):
            client.create_collection("name", metric="l2")
    assert len(served) == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((500, b'{"error":"InternalError","message":"Error in compaction"}'), EngineBrokenError),
        ((500, b"no json"), EngineBrokenError),
        ((500, b"[]"), EngineBrokenError),
        ((500, b'{"message":"UNIQUE constraint failed: collections.name"}'), EngineConflictError),
        ((503, b""), EngineUnavailableError),
        ((429, b"{}"), EngineUnavailableError),
        ((400, b'{"message":"no"}'), EngineRefusedError),
        ((200, b"<html>"), EngineUnavailableError),
    ],
)
def test_answers_become_errors(answer, error):
    with engine_answering(answer) as (address, _), pytest.raises(error):
        query(address)


def test_silence_is_unavailable():
    silent = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    try:
        address = f"http://127.0.0.1:{silent.server_port}"
        with connected(address) as client, pytest.raises(EngineUnavailableError) as unavailable:
            client.query("an-id", VECTORS, 1, timeout_seconds=0.05)
        assert unavailable.value.details["cause"] == "TimeoutError"
    finally:
        silent.server_close()


def test_an_address_may_have_a_path():
    with engine_answering((200, b"{}")) as (address, served), connected(f"{address}/chroma/") as client:
        client.heartbeat()
    assert served == ["/chroma/api/v2/heartbeat"]
