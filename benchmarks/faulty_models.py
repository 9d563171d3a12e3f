"""Servers of embeddings with the habits of those that people run, each at a base URL of its own. They count what they
are asked."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BUSY_SECONDS = 60.0
DIMENSION = 64
Json = dict[str, Any]
Answer = tuple[int, Json]


class FaultyModels:
    """`/well/v1` has no fault, `/bad` (Ollama's protocol) fails with 500 where a text says BAD, `/strict/v1` refuses
    `encoding_format` as FastAPI does, `/ten/v1` takes ten texts a call, `/plain` answers below /v1 only, and `/busy/v1`
    answers 429 for a minute after `begin`."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.texts: Counter[str] = Counter()
        self.url = ""
        self._lock = threading.Lock()
        self._began_at = time.monotonic()
        self._faults: dict[str, Callable[[Json, list[str]], Answer | None]] = {
            "well": lambda body, texts: None,
            "plain": lambda body, texts: None,
            "bad": _bad,
            "strict": _strict,
            "ten": _ten,
            "busy": lambda body, texts: (429, {"error": {"message": "Too many requests"}}) if self._is_busy() else None,
        }

    def begin(self) -> None:
        """Count anew, and be busy from now on."""
        with self._lock:
            self.calls.clear()
            self.texts.clear()
            self._began_at = time.monotonic()

    def answer(self, path: str, body: Json) -> Answer:
        name, _, route = path.removeprefix("/").partition("/")
        with self._lock:
            self.calls[name] += 1
        if route not in ("v1/embeddings", "api/embed") or name not in self._faults:
            return 404, {"detail": "Not Found"}
        texts = [body["input"]] if isinstance(body["input"], str) else list(body["input"])
        with self._lock:
            self.texts[name] += len(texts)
        refusal = self._faults[name](body, texts)
        if refusal is not None:
            return refusal
        vectors = [_vector(text) for text in texts]
        if route == "api/embed":
            return 200, {"embeddings": vectors}
        return 200, {"data": [{"index": place, "embedding": vector} for place, vector in enumerate(vectors)]}

    def _is_busy(self) -> bool:
        return time.monotonic() - self._began_at < BUSY_SECONDS


def _bad(body: Json, texts: list[str]) -> Answer | None:
    said = "failed to encode response: json: unsupported value: NaN"
    return (500, {"error": said}) if any("BAD" in text for text in texts) else None


def _strict(body: Json, texts: list[str]) -> Answer | None:
    if body.get("encoding_format", "float") == "float":
        return None
    fault = {"type": "literal_error", "loc": ["body", "encoding_format"], "msg": "Input should be 'float'"}
    return 422, {"detail": [fault]}


def _ten(body: Json, texts: list[str]) -> Answer | None:
    said = "batch size is invalid, it should not be larger than 10"
    return (400, {"error": {"message": said}}) if len(texts) > 10 else None


def _vector(text: str) -> list[float]:
    digest = hashlib.sha256(text.encode()).digest()
    return [1.0 + digest[place % len(digest)] / (place + 1) for place in range(DIMENSION)]


@contextmanager
def faulty_models() -> Iterator[FaultyModels]:
    models = FaultyModels()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
            self._send(*models.answer(self.path, body))

        def do_GET(self) -> None:
            self._send(404, {"detail": "Not Found"})

        def _send(self, status: int, answer: Json) -> None:
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: calls are counted."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    models.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield models
    finally:
        server.shutdown()
        server.server_close()
