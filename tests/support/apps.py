"""Run the whole service in this process, and ask it slowly."""

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

from interfaces.commands.scratch_service import processes_in
from interfaces.compose import create_app
from schemas.settings import OPEN, AccessSettings, RegistrySettings, RetrievalSettings, WrapperSettings
from tests.support.contract import CheckedClient
from tests.support.live import ORIGIN, eventually
from tests.support.model_server import StubServer

ONE_LOOK = 3_000.0
"""Keeps the service from looking at its models, so that only the test asks a stub of a model service."""


def models_of(stub: StubServer, *, chats: bool = True, **settings: object) -> RegistrySettings:
    """Return the settings of a service that has the stub as its embedding and, when it `chats`, its chat service."""
    url = f"{stub.url}/v1"
    chat = {"chat_provider": "openai", "chat_url": url, "chat_model": "chatty"} if chats else {}
    return RegistrySettings(embedding_provider="openai", embedding_url=url, embedding_model="stub", **chat, **settings)


@contextmanager
def running_app(
    data_dir: Path,
    *,
    registry: RegistrySettings | None = None,
    retrieval: RetrievalSettings | None = None,
    access: AccessSettings | None = None,
    look_seconds: float = ONE_LOOK,
    **settings: object,
) -> Iterator[Flask]:
    """Run an app that is healthy for the length of the block; its clients check every answer against openapi.yaml.

    Without settings of `access` it stays open to all, also when a test makes a key.
    """
    app = create_app(
        WrapperSettings(
            data_dir=data_dir,
            disk_floor_mb=1,
            cors_origins=(ORIGIN,),
            log_level="warning",
            log_format="json",
            **settings,
        ),
        replace(registry or RegistrySettings(), health_look_seconds=look_seconds),
        retrieval or RetrievalSettings(),
        access or AccessSettings(OPEN),
    )
    app.test_client_class = CheckedClient
    service = app.extensions["rag.service"]
    try:
        eventually(lambda: service.health().status == "healthy")
        yield app
    finally:
        service.close()
    eventually(lambda: not processes_in(data_dir))


class _Quiet(WSGIRequestHandler):
    def log(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def served(app: Flask, port: int = 0) -> Iterator[str]:
    """Answer requests over HTTP by an app of this process for the length of the block, and give its URL."""
    server = make_server("127.0.0.1", port, app, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class HeldBody(io.RawIOBase):
    """A body of a request that gives its pieces one by one, and calls `then` before the last one."""

    def __init__(self, pieces: Sequence[bytes], then: Callable[[], object]) -> None:
        self._left = list(pieces)
        self._then = then
        self.length = sum(map(len, pieces))

    @property
    def environ(self) -> dict[str, Any]:
        """What makes it the body of a request of a test client (`environ_overrides`)."""
        return {"wsgi.input": self, "CONTENT_LENGTH": str(self.length)}

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            return 0
        if len(self._left) == 1:
            self._then()
        piece = self._left.pop(0)
        buffer[: len(piece)] = piece
        return len(piece)
