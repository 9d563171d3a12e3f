"""Qdrant's client, opened in the two ways there are: on a server, through this service's way out, and on a folder.

This module imports the library, so it is itself imported only when a connection is opened.
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

from providers.outbound.answers import reading
from providers.outbound.json_client import JsonClient
from providers.qdrant.folders import is_qdrant, readable_folder, settled_folder
from schemas.errors import BusyError, RagError, UnavailableError

log = structlog.get_logger(__name__)

# The library puts this before its routes; the transport replaces it by the address of the service.
PLACEHOLDER_URL = "http://qdrant"


class ServerAccess:
    """A server that several threads ask through one client. The library's own sockets, version check and telemetry stay
    unused: all it sends goes through `service`."""

    def __init__(self, service: JsonClient) -> None:
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
    """A folder below `qdrant/` in the data directory. Qdrant lets one client at a time open it, and this service has
    several processes, so each operation opens it under a lock and closes it again. A connection that is only tried out
    makes and moves nothing, and takes a missing folder for an empty one."""

    def __init__(self, data_dir: Path, name: str, timeout_seconds: float, *, is_trial: bool) -> None:
        self._data_dir = data_dir
        self._name = name
        self._timeout_seconds = timeout_seconds
        self._is_trial = is_trial

    @contextmanager
    def client(self) -> Iterator[QdrantClient]:
        try:
            if self._is_trial:
                folder = readable_folder(self._data_dir, self._name)
            else:
                folder = settled_folder(self._data_dir, self._name, self._timeout_seconds)
            if folder is None:
                with closing(QdrantClient(":memory:")) as client:
                    yield client
                return
            lock = FileLock(folder.with_name(f"{folder.name}.lock"), timeout=self._timeout_seconds)
            if self._is_trial and not is_qdrant(folder):
                raise self._unusable()
            with lock, closing(self._open(folder)) as client:
                yield client
        except Timeout as error:
            raise BusyError(
                f"The folder '{self._name}' was in use for {self._timeout_seconds:g} s", error_type="timeout"
            ) from error
        except (OSError, ValueError, sqlite3.Error) as error:
            raise self._unusable() from error

    def close(self) -> None:
        """Do nothing: the folder is closed after each operation."""

    def _open(self, folder: Path) -> QdrantClient:
        try:
            return QdrantClient(path=str(folder))
        except (RuntimeError, ValueError, KeyError, EOFError, pickle.UnpicklingError) as error:
            raise self._unusable() from error

    def _unusable(self) -> UnavailableError:
        log.exception("an embedded Qdrant cannot be used", folder=self._name)
        return UnavailableError(
            f"The folder '{self._name}' cannot be used by Qdrant; the reason is in the log", error_type="unknown"
        )


class _Transport(httpx.BaseTransport):
    """Sends requests through a service's client, which raises every failure, so each response is a success."""

    def __init__(self, service: JsonClient) -> None:
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
