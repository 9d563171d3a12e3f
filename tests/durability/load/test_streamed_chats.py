"""Streamed chats through the real service: pieces come as they are said, and a client that leaves takes all with it."""

import itertools
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
from schemas.settings import RegistrySettings
from tests.support.apps import running_app
from tests.support.live import live_service
from tests.support.model_server import Answer, as_events, model_server
from tests.support.raw_server import raw_server

ANSWER_SECONDS = 60
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
    return requests.post(f"{service.url}/api/chat", json={"stream": True, **body}, stream=True, timeout=ANSWER_SECONDS)


def test_a_stream_arrives_whole(service):
    with chat(service, message="Hello?") as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    *deltas, last = [json.loads(line.removeprefix(b"data: ")) for line in lines]
    assert "".join(each["delta"] for each in deltas) == last["data"]["message"] == "So it is."
    assert last["done"] is True


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
    assert hung_up.wait(ANSWER_SECONDS)
    # The one place for requests that wait for other services is free again.
    assert chat(service, message="Hello?", stream=False).json()["data"]["message"] == "So it is."
    assert requests.get(f"{service.url}/api/chat/left", timeout=ANSWER_SECONDS).status_code == 404


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
        with socket.create_connection((address.hostname, address.port), ANSWER_SECONDS) as client:
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert asked.wait(ANSWER_SECONDS)
        assert hung_up.wait(ANSWER_SECONDS)
    finally:
        models.routes["/v1/chat/completions"] = usual
    assert chat(service, message="Hello?", stream=False).json()["data"]["message"] == "So it is."
    assert requests.get(f"{service.url}/api/chat/left", timeout=ANSWER_SECONDS).status_code == 404


def test_an_answer_that_goes_on_and_on_ends_with_the_time_for_other_services(tmp_path, processes):
    def speak(server, connection):
        if server.requests[-1].startswith(b"GET "):  # the service looks whether its model is there
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"data":[]}')
            return
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        server.drip(connection, itertools.repeat(HALF))

    with raw_server(speak) as server:
        registry = RegistrySettings(chat_provider="openai", chat_url=server.url, chat_model="m")
        with running_app(tmp_path, registry=registry, service_seconds=1.0) as app:
            answer = app.test_client().post("/api/chat", json={"message": "Hello?", "stream": True})
            *deltas, last = [json.loads(part) for part in answer.get_data(as_text=True).split("data: ")[1:]]
    assert {each["delta"] for each in deltas} == {"Half"}
    assert (last["error"], last["code"]) == ("Service Unavailable", "chat_unavailable")
    assert last["details"]["error_type"] == "timeout"
