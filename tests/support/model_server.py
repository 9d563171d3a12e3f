"""Run a small server on loopback that speaks the protocols of embedding and chat services, and fails on request."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

import numpy as np

from tests.support.http_stub import QuietServer
from tests.support.live import PATIENCE_SECONDS

DIMENSION = 8


@dataclass
class Answer:
    """An answer of the server; a body of None breaks the connection off without a word. `hold` keeps it open
    afterwards, and `hung_up` is set when the client ends it first."""

    status: int = 200
    body: bytes | None = b""
    headers: dict = field(default_factory=dict)
    hold: threading.Event | None = None
    hung_up: threading.Event | None = None


@dataclass
class Request:
    path: str
    headers: dict
    body: dict


def vector(text: str) -> np.ndarray:
    """Return the stub's embedding of a text: fixed, of length 1, different for different texts."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    numbers = np.random.default_rng(seed).normal(size=DIMENSION)
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def as_json(value, status=200, **headers) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json", **headers})


def as_events(*events: dict | str, **answer: object) -> Answer:
    """Return an answer of server-sent events; those that are no objects are sent as they are."""
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    body = "".join(f"data: {text}\n\n" for text in texts).encode()
    return Answer(200, body, {"Content-Type": "text/event-stream"}, **answer)


def openai_answer(body: dict, *, plain: bool = False, meanings: Mapping[str, Sequence[float]] | None = None) -> Answer:
    def encoded(text):
        meant = next((meant for word, meant in (meanings or {}).items() if word in text), None)
        numbers = (
            vector(text) if meant is None else np.resize([*meant, *[0.0] * DIMENSION], DIMENSION).astype(np.float32)
        )
        if plain or body.get("encoding_format") != "base64":
            return numbers.tolist()
        return base64.b64encode(numbers.tobytes()).decode()

    items = [{"object": "embedding", "index": i, "embedding": encoded(text)} for i, text in enumerate(body["input"])]
    return as_json({"object": "list", "data": items[::-1], "model": body["model"]})


def ollama_answer(body: dict) -> Answer:
    return as_json({"model": body["model"], "embeddings": [vector(text).tolist() for text in body["input"]]})


def old_ollama_answer(body: dict) -> Answer:
    return as_json({"embedding": (vector(body["prompt"]) * 7).tolist()})


def chat_answer(body: dict, words: str = "So it is.", ends: str | None = None) -> Answer:
    """Say `words`, one by one where the request wants a stream."""
    if body.get("stream"):
        said = [{"delta": {"content": word}} for word in re.findall(r"\S+\s*", words)] + [{"finish_reason": ends}]
        return as_events({"model": body["model"], "choices": []}, *({"choices": [each]} for each in said), "[DONE]")
    choice = {"message": {"role": "assistant", "content": words}, "finish_reason": ends}
    return as_json({"model": body["model"], "choices": [choice]})


class StubServer:
    """A server that first sends the answers in `script` (or those of functions of the request's body), in order, and
    then follows the protocol. `meanings` gives each text that contains a word the vector of that word. While it
    `is_down`, connections break."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.script: list[Answer | Callable[[dict], Answer]] = []
        self.meanings: dict[str, Sequence[float]] = {}
        self.is_down = False
        self.routes: dict[str, Callable[[dict], Answer]] = {
            "/v1/embeddings": lambda body: openai_answer(body, meanings=self.meanings),
            "/v1/chat/completions": chat_answer,
            "/api/embed": ollama_answer,
            "/api/embeddings": old_ollama_answer,
        }
        self._server = QuietServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def reset(self) -> None:
        """Forget the script and the meanings, and answer again."""
        self.is_down = False
        self.script.clear()
        self.meanings.clear()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, request: Request) -> Answer:
        self.requests.append(request)
        if self.is_down:
            return Answer(body=None)
        if self.script:
            scripted = self.script.pop(0)
            return scripted if isinstance(scripted, Answer) else scripted(request.body)
        if request.path in self.routes:
            return self.routes[request.path](request.body)
        return Answer(404, b"404 page not found", {"Content-Type": "text/plain"})

    def _handler(self):
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 5

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._give(stub._answer(Request(self.path, dict(self.headers), body)))

            def do_GET(self):
                listed = {"/v1/models": {"data": [{"id": "chatty"}]}, "/api/tags": {"models": [{"name": "chatty"}]}}
                if self.path not in listed:
                    raise AssertionError("nobody asks for anything else with GET: a redirect was followed")
                self._give(Answer(body=None) if stub.is_down else as_json(listed[self.path]))

            def _give(self, answer):
                if answer.body is None:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                headers = {"Content-Length": str(len(answer.body)), **answer.headers}
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)
                if answer.hung_up:
                    self.connection.settimeout(PATIENCE_SECONDS)
                    if not self.connection.recv(1):
                        answer.hung_up.set()
                if answer.hold:
                    answer.hold.wait(PATIENCE_SECONDS)
                if int(headers["Content-Length"]) != len(answer.body):
                    self.close_connection = True

            def log_message(self, *args):
                pass

        return Handler


@contextmanager
def model_server() -> Iterator[StubServer]:
    stub = StubServer()
    try:
        yield stub
    finally:
        stub.stop()
