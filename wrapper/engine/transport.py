"""JSON over HTTP to the engine, and the translation of its answers into our errors."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ssl import SSLCertVerificationError, SSLContext
from typing import Any, NoReturn
from urllib.parse import urlsplit

import orjson

from schemas.errors import InvalidInputError
from wrapper.engine.failures import (
    EngineAccessError,
    EngineBrokenError,
    EngineCollectionMissingError,
    EngineConflictError,
    EngineNamespaceMissingError,
    EngineRefusedError,
    EngineUnavailableError,
)
from wrapper.engine.server_access import STOCK, EngineAccess

MAX_CONNECT_SECONDS = 2.0
JSON = {"content-type": "application/json"}
# The metadata of a write is visible a moment before its vectors are: a query in between gets this answer.
RETRIED_MESSAGE = "Error finding id"
RETRY_ATTEMPTS, RETRY_PAUSE_SECONDS = 10, 0.025
CONFLICT_MESSAGES = ("already exists", "UNIQUE constraint failed")
NAMESPACE_MESSAGES = ("Tenant [", "Database [")
QUOTA = "quota"
ACCESS_SENTENCES = {
    401: "The Chroma server asks for another token (401): see RAG_CHROMA_TOKEN and RAG_CHROMA_TOKEN_HEADER",
    402: "The Chroma server asks for payment (402)",
    403: "The Chroma server does not let this service in (403): see RAG_CHROMA_TOKEN, RAG_CHROMA_TENANT and "
    "RAG_CHROMA_DATABASE",
    404: "What answers at the engine's address has no Chroma API (404): see RAG_CHROMA_URL",
    407: "A proxy in front of the Chroma server asks for credentials (407)",
    429: "The Chroma server asks for fewer requests (429)",
}


@dataclass(frozen=True, slots=True)
class _Pool:
    """The idle connections to one address, of which the last used is taken first.

    They are http.client's: what urllib3 adds costs a vector query half a millisecond of processor time.
    """

    address: str
    process_id: int
    host: str
    port: int | None
    prefix: str
    tls: SSLContext | None
    size: int
    idle: deque[HTTPConnection]

    def take(self) -> HTTPConnection:
        try:
            return self.idle.pop()
        except IndexError:
            return self.new()

    def new(self) -> HTTPConnection:
        if self.tls is not None:
            return HTTPSConnection(self.host, self.port, context=self.tls)
        return HTTPConnection(self.host, self.port)

    def give_back(self, connection: HTTPConnection) -> None:
        if len(self.idle) < self.size:
            self.idle.append(connection)
        else:
            connection.close()

    def forget_idle(self) -> None:
        """Close all idle connections: when one turns out to be closed, the others most likely are too."""
        while self.idle:
            self.take().close()


class Transport:
    """Persistent connections to the engine at its present `address()`.

    Many threads can use them, and a forked process too, which gets connections of its own.
    """

    def __init__(
        self,
        address: Callable[[], str],
        *,
        pool_size: int,
        sleep: Callable[[float], None],
        access: EngineAccess = STOCK,
    ) -> None:
        self._address, self._pool_size, self._sleep = address, pool_size, sleep
        self._access = access
        self._headers = {**JSON, **access.headers}
        self._lock = threading.Lock()
        self._pool: _Pool | None = None

    def call(self, method: str, path: str, body: Any = None, *, timeout_seconds: float, repeatable: bool = True) -> Any:
        """Send one request and return the decoded answer.

        `repeatable` requests may use a kept connection, and are sent once more when it turns out to be closed.
        """
        return self.send(method, path, encode_body(body), timeout_seconds=timeout_seconds, repeatable=repeatable)

    def send(
        self, method: str, path: str, body: bytes | None, *, timeout_seconds: float, repeatable: bool = True
    ) -> Any:
        """Send one request with an encoded body and return the decoded answer.

        Raises EngineUnavailableError, EngineCollectionMissingError, EngineConflictError, EngineBrokenError or
        EngineRefusedError, with the engine's message in `details.engine_message`. A redirect is not followed.
        """
        for attempt in range(RETRY_ATTEMPTS + 1):
            status, data, location = self._exchange(method, path, body, timeout_seconds, repeatable)
            if status < 300:
                return _decoded(data)
            is_chromas, message = _message(data)
            message = self._access.without_token(message)
            if RETRIED_MESSAGE not in message or attempt == RETRY_ATTEMPTS:
                if status < 400:
                    _redirected(status, location)
                _fail(status, message, is_chromas=is_chromas)
            self._sleep(RETRY_PAUSE_SECONDS)
        raise AssertionError("unreachable")

    def address(self) -> str:
        """Return the address of the next request. Raises EngineUnavailableError when there is no engine."""
        return self._current_pool().address

    def close(self) -> None:
        """Close the idle connections. The next request opens new ones."""
        if self._pool is not None:
            self._pool.forget_idle()

    def _exchange(
        self, method: str, path: str, body: bytes | None, timeout_seconds: float, repeatable: bool
    ) -> tuple[int, bytes, str]:
        pool = self._current_pool()
        for attempt in (1, 2):
            connection = pool.take() if repeatable else pool.new()
            is_kept = connection.sock is not None
            try:
                if not is_kept:
                    connection.timeout = min(timeout_seconds, MAX_CONNECT_SECONDS)
                    connection.connect()
                connection.sock.settimeout(timeout_seconds)
                connection.request(method, pool.prefix + path, body, self._headers)
                response = connection.getresponse()
                data = response.read()
            except (OSError, HTTPException) as exc:
                connection.close()
                # The engine may have closed a kept connection meanwhile; a new connection has no such excuse.
                if isinstance(exc, TimeoutError) or not (is_kept and repeatable and attempt == 1):
                    _unavailable(exc)
                pool.forget_idle()
                continue
            except BaseException:
                connection.close()
                raise
            if response.will_close or pool is not self._pool:
                connection.close()
            else:
                pool.give_back(connection)
            return response.status, data, response.getheader("location", "")
        raise AssertionError("unreachable")

    def _current_pool(self) -> _Pool:
        address, process_id = self._address(), os.getpid()
        pool = self._pool
        if pool is None or pool.address != address or pool.process_id != process_id:
            with self._lock:
                pool = self._pool
                if pool is None or pool.address != address or pool.process_id != process_id:
                    self.close()
                    pool = self._pool = self._open(address, process_id)
        return pool

    def _open(self, address: str, process_id: int) -> _Pool:
        if not address:
            raise EngineUnavailableError("The engine is not running")
        try:
            parts = urlsplit(address)
            host, port = parts.hostname, parts.port
        except ValueError as exc:
            _unavailable(exc)
        if not host:
            raise EngineUnavailableError("The engine's address is not a URL")
        tls = None
        if parts.scheme == "https":
            try:
                tls = self._access.tls_context()
            except OSError as exc:
                _unavailable(exc)
        return _Pool(address, process_id, host, port, parts.path.rstrip("/"), tls, self._pool_size, deque())


def encode_body(body: Any) -> bytes | None:
    """Encode a body as JSON. Raises InvalidInputError for text that is not Unicode (half a surrogate pair)."""
    if body is None:
        return None
    try:
        return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError as exc:
        raise InvalidInputError(f"The engine cannot be sent this: {exc}") from exc


def _decoded(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise EngineUnavailableError("What answers at the engine's address is not Chroma") from exc


def _message(data: bytes) -> tuple[bool, str]:
    """Return whether an error's answer is one of Chroma's, and its message."""
    try:
        answer = orjson.loads(data)
        return isinstance(answer["error"], str), str(answer["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return False, data[:200].decode("utf-8", "replace")


def _fail(status: int, message: str, *, is_chromas: bool) -> NoReturn:
    """Raise the error for a status.

    What Chroma itself answers is about the request; any other answer is about whatever stands in front of it.
    """
    if status == 404 and is_chromas:
        if message.startswith(NAMESPACE_MESSAGES):
            raise EngineNamespaceMissingError(
                "The Chroma server has no such tenant or database: see RAG_CHROMA_TENANT and RAG_CHROMA_DATABASE",
                engine_message=message,
            )
        raise EngineCollectionMissingError("The engine does not have this collection", engine_message=message)
    if (status == 409 and is_chromas) or (status == 500 and any(known in message for known in CONFLICT_MESSAGES)):
        raise EngineConflictError("The engine already has a collection of this name", engine_message=message)
    if status in ACCESS_SENTENCES:
        raise EngineAccessError(ACCESS_SENTENCES[status], status=status, engine_message=message)
    if status == 422 and QUOTA in message.lower():
        sentence = "The Chroma server's quota does not allow more (422)"
        raise EngineAccessError(sentence, status=status, engine_message=message)
    if status == 413 or (status in (400, 422) and is_chromas):
        raise EngineRefusedError("The engine refused the request", status=status, engine_message=message)
    if status == 500 and is_chromas:
        raise EngineBrokenError("The engine failed", engine_message=message)
    sentence = f"What answers at the engine's address does not take requests now ({status})"
    raise EngineUnavailableError(sentence, status=status, engine_message=message)


def _redirected(status: int, location: str) -> NoReturn:
    """Raise the error for a redirect, which is never followed: the token would go where nobody sent it."""
    try:
        target = urlsplit(location)
        elsewhere = f" to {target.scheme}://{target.netloc.rpartition('@')[2]}" if target.netloc else ""
    except ValueError:
        elsewhere = ""
    raise EngineAccessError(
        f"The Chroma server's address redirects{elsewhere} ({status}): RAG_CHROMA_URL must be where it answers itself",
        status=status,
    )


def _unavailable(exc: Exception) -> NoReturn:
    if isinstance(exc, SSLCertVerificationError):
        sentence = "The Chroma server's certificate is not trusted: see RAG_CHROMA_CA_FILE"
        raise EngineAccessError(sentence, cause=exc.verify_message) from exc
    raise EngineUnavailableError("The engine does not answer", cause=type(exc).__name__) from exc
