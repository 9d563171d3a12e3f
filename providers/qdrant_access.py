"""Qdrant's client, opened in the two ways there are: on a server, through this service's way out, and on a folder.

Imports the library: to be imported when connecting.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import structlog
from filelock import FileLock, Timeout
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException

from providers.answers import reading
from providers.remote_service import RemoteService
from schemas.errors import BusyError, RagError, UnavailableError

log = structlog.get_logger(__name__)

# What the library puts before its routes; the transport replaces it by the address of the service.
PLACEHOLDER_URL = "http://qdrant"


class ServerAccess:
    """A server, asked by several threads through one client. The library's own sockets, version check and telemetry
    stay unused: all it sends goes through `service`."""

    def __init__(self, service: RemoteService) -> None:
        self._client = QdrantClient(
            url=PLACEHOLDER_URL,
            port=None,
            prefer_grpc=False,
            check_compatibility=False,
            transport=_Transport(service),
            trust_env=False,
        )
        self._client.http.client.add_middleware(_unwrap)

    @contextmanager
    def client(self) -> Iterator[QdrantClient]:
        # The library asserts that an answer has what it needs.
        with reading("The document store 'qdrant'", ApiException, AssertionError):
            yield self._client

    def close(self) -> None:
        self._client.close()


class FolderAccess:
    """A folder of this machine. Qdrant lets one client at a time open it, and this service has several processes: each
    operation opens it under a lock and closes it again."""

    def __init__(self, folder: Path, timeout_seconds: float) -> None:
        self._folder = folder
        self._timeout_seconds = timeout_seconds

    @contextmanager
    def client(self) -> Iterator[QdrantClient]:
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._folder.with_name(f"{self._folder.name}.lock"), timeout=self._timeout_seconds)
        try:
            with lock, closing(self._open()) as client:
                yield client
        except Timeout as error:
            raise BusyError(
                f"The folder '{self._folder.name}' was in use for {self._timeout_seconds:g} s", error_type="timeout"
            ) from error
        except (OSError, ValueError, sqlite3.Error) as error:
            raise self._unusable() from error

    def close(self) -> None:
        """Nothing is open between operations."""

    def _open(self) -> QdrantClient:
        try:
            return QdrantClient(path=str(self._folder))
        except (RuntimeError, ValueError, KeyError, EOFError, pickle.UnpicklingError) as error:
            raise self._unusable() from error

    def _unusable(self) -> UnavailableError:
        log.exception("an embedded Qdrant cannot be used", folder=self._folder.name)
        return UnavailableError(
            f"The folder '{self._folder.name}' cannot be used by Qdrant; the reason is in the log", error_type="unknown"
        )


class _Transport(httpx.BaseTransport):
    """Sends by a service, which raises what is wrong: only what succeeded comes back."""

    def __init__(self, service: RemoteService) -> None:
        self._service = service

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        route = request.url.raw_path.decode("ascii")
        return httpx.Response(200, content=self._service.send(request.method, route, request.read() or None))


def _unwrap(request: httpx.Request, send: Callable[[httpx.Request], httpx.Response]) -> httpx.Response:
    try:
        return send(request)
    except ResponseHandlingException as error:
        if isinstance(error.source, RagError):
            raise error.source from None
        raise
