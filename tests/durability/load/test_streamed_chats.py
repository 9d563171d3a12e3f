"""Streamed chats through the real service: pieces come as they are said, and a client that leaves takes all with it."""

import json
import socket
import threading
from contextlib import closing
from urllib.parse import urlsplit

import pytest
import requests

from providers.outbound.answer_streams import event_data
from providers.outbound.json_client import JsonClient
from providers.outbound.network import Network
from providers.rag_wrapper.dialect import WrapperDialect
from schemas.errors import UnavailableError
from tests.support.live import PATIENCE_SECONDS, live_service
from tests.support.model_server import Answer, as_events, model_server

HALF = b'data: {"choices":[{"delta":{"content":"Half"}}]}\n\n'


@pytest.fixture(scope="module")
def models():
    with model_server() as server:
        yield server


@pytest.fixture(scope="module")
def service(tmp_path_factory, models, processes):
    settings = {"chat_provider": "openai", "chat_url": f"{models.url}/v1", "chat_model": "m"}
    with live_service(tmp_path_factory.mktemp("streams"), workers=1, service_threads=1, **settings) as service:
        yield service


def chat(service, **body):
    return requests.post(
        f"{service.url}/api/chat", json={"stream": True, **body}, stream=True, timeout=PATIENCE_SECONDS
    )


def test_programs_read_a_stream_as_they_read_other_answers(service, models):
    client = JsonClient(service.url, WrapperDialect(service.url), network=Network())
    body = {"message": "Hello?", "stream": True}
    with closing(client), client.events("/api/chat", body, event_data) as events:
        *deltas, last = events
    assert "".join(each["delta"] for each in deltas) == last["data"]["message"]
    models.script = [as_events({"choices": [{"delta": {"content": "Half"}}]}, {"error": {"message": "out of memory"}})]
    with closing(client), client.events("/api/chat", body, event_data) as events:
        assert next(events) == {"delta": "Half"}
        with pytest.raises(UnavailableError, match="out of memory") as caught:
            next(events)
    assert caught.value.code == "chat_unavailable"


def test_a_client_that_leaves_hangs_up_on_the_model_and_frees_its_place(service, models):
    hung_up = threading.Event()
    models.script = [Answer(200, HALF, {"Content-Length": "100000"}, hung_up=hung_up)]
    with chat(service, message="Hello?", conversationId="left") as answer:
        assert answer.raw.read1(100) == b'data: {"delta":"Half"}\n\n'  # while the model has not said the rest
    assert hung_up.wait(PATIENCE_SECONDS)
    # The one place for requests that wait for other services is free again.
    assert chat(service, message="Hello?", stream=False).json()["data"]["message"] == "So it is."
    assert requests.get(f"{service.url}/api/chat/left", timeout=PATIENCE_SECONDS).status_code == 404


def test_a_client_that_leaves_before_the_first_word_does_the_same(service, models):
    hung_up, asked = threading.Event(), threading.Event()
    usual = models.routes["/v1/chat/completions"]

    def silent(body):
        asked.set()
        return Answer(200, b"", {"Content-Length": "100000"}, hung_up=hung_up)

    body = json.dumps({"stream": True, "message": "Hello?", "conversationId": "left"}).encode()
    address = urlsplit(service.url)
    head = f"POST /api/chat HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    models.routes["/v1/chat/completions"] = silent
    try:
        with socket.create_connection((address.hostname, address.port), PATIENCE_SECONDS) as client:
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert asked.wait(PATIENCE_SECONDS)
        assert hung_up.wait(PATIENCE_SECONDS)
    finally:
        models.routes["/v1/chat/completions"] = usual
    assert chat(service, message="Hello?", stream=False).json()["data"]["message"] == "So it is."
    assert requests.get(f"{service.url}/api/chat/left", timeout=PATIENCE_SECONDS).status_code == 404
