"""Answers that a healthy engine does not give, from a stub that speaks its protocol."""

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from tests.support.http_stub import running
from wrapper.engine.client import EngineClient
from wrapper.engine.failures import (
    EngineAccessError,
    EngineBrokenError,
    EngineCollectionMissingError,
    EngineConflictError,
    EngineNamespaceMissingError,
    EngineRefusedError,
    EngineUnavailableError,
)
from wrapper.engine.server_access import EngineAccess

RACE = (500, b'{"error":"InternalError","message":"Error executing plan: Internal error: Error finding id"}')
FOUND = (200, b'{"ids":[["a"]]}')
VECTORS = np.ones((1, 3), dtype=np.float32)


class Served(list):
    """The requested paths of a stub engine that gives `answers` one after the other; `headers` has those of each request."""

    def __init__(self, answers, location):
        super().__init__()
        self.headers, self._answers = [], iter(answers)
        self._sent = {"location": location} if location else {}

    def answer(self, method, target, headers, body):
        self.append(target)
        self.headers.append(headers)
        answer = next(self._answers)
        return answer and (answer[0], self._sent, answer[1])


@contextmanager
def engine_answering(*answers, location=None):
    """A stub engine that gives these answers one after the other; None closes the connection without one."""
    with running(Served(answers, location)) as served:
        yield served.url, served


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


def test_a_record_whose_vector_is_not_there_yet_is_asked_for_again_until_the_index_is_known_to_be_broken():
    pauses = []
    with engine_answering(RACE, RACE, FOUND) as (address, served):
        assert query(address, pauses) == [["a"]]
    assert len(served) == 3
    assert pauses == [0.025, 0.025]
    pauses.clear()
    with engine_answering(*[RACE] * 11) as (address, _), pytest.raises(EngineBrokenError) as broken:
        query(address, pauses)
    assert "Error finding id" in broken.value.details["engine_message"]
    assert len(pauses) == 10


def test_a_kept_connection_that_was_closed_costs_one_repetition_and_an_engine_that_keeps_closing_is_unavailable():
    with engine_answering(FOUND, None, FOUND) as (address, served), connected(address) as client:
        assert client.query("an-id", VECTORS, 1) == [["a"]]
        assert client.query("an-id", VECTORS, 1) == [["a"]]
    assert len(served) == 3
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
        ((500, b"no json"), EngineUnavailableError),
        ((500, b'{"message":"UNIQUE constraint failed: collections.name"}'), EngineConflictError),
        ((520, b"<html>"), EngineUnavailableError),
        ((301, b""), EngineAccessError),
        ((403, b'{"error":"AuthError","message":"Forbidden"}'), EngineAccessError),
        ((404, b"<html>not here</html>"), EngineAccessError),
        ((404, b'{"error":"NotFoundError","message":"Tenant [acme] not found"}'), EngineNamespaceMissingError),
        ((404, b'{"error":"NotFoundError","message":"Collection [x] does not exist"}'), EngineCollectionMissingError),
        ((422, b'{"error":"QuotaError","message":"Quota exceeded: 300 records"}'), EngineAccessError),
        ((429, b"{}"), EngineAccessError),
        ((400, b"<html>The plain HTTP request was sent to HTTPS port</html>"), EngineUnavailableError),
        ((400, b'{"error":"InvalidArgumentError","message":"no"}'), EngineRefusedError),
        ((409, b'{"error":"UniqueConstraintError","message":"Collection [x] already exists"}'), EngineConflictError),
        ((422, b'{"error":"ChromaError","message":"Failed to deserialize"}'), EngineRefusedError),
        ((200, b"<html>"), EngineUnavailableError),
    ],
)
def test_answers_become_errors(answer, error):
    with engine_answering(answer) as (address, _), pytest.raises(error):
        query(address)


def test_a_redirect_is_not_followed_and_says_where_the_setting_points():
    with engine_answering((301, b""), location="https://user:secret@elsewhere.example:8443/api/v2") as (
        address,
        served,
    ):
        with pytest.raises(EngineAccessError, match=r"https://elsewhere\.example:8443 .*RAG_CHROMA_URL") as redirected:
            query(address)
        assert "secret" not in redirected.value.message
        assert len(served) == 1


@pytest.mark.parametrize(("header", "sent"), [("X-Chroma-Token", "s3cret"), ("Authorization", "Bearer s3cret")])
def test_a_token_goes_with_every_request_and_into_no_error(header, sent):
    access = EngineAccess(tenant="acme", database="main db", token="s3cret", token_header=header)
    echo = b'{"error":"AuthError","message":"wrong token s3cret"}'
    assert "s3cret" not in repr(access)
    with engine_answering((200, b"{}"), (401, echo)) as (address, served):
        client = EngineClient(lambda: address, access=access)
        client.heartbeat()
        with pytest.raises(EngineAccessError) as refused:
            client.count("an-id")
        client.close()
    assert [headers[header] for headers in served.headers] == [sent, sent]
    assert served == [
        "/api/v2/tenants/acme/databases/main%20db",
        "/api/v2/tenants/acme/databases/main%20db/collections/an-id/count",
    ]
    assert "s3cret" not in f"{refused.value} {refused.value.details}"


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
    assert served == ["/chroma/api/v2/tenants/default_tenant/databases/default_database"]
