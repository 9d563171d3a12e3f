"""Sessions of requests that open their connections through a network, and a limit for the whole of an answer."""

from __future__ import annotations

import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Protocol, Self

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    DecodeError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)

from providers.outbound import deadlines
from schemas.errors import ClientGoneError
from schemas.storage import read_limits
from schemas.threads import begin_thread

MAX_CONNECTIONS = 32
CONNECT_SECONDS = 5.0
"""The seconds that a host has to accept a connection. One that takes longer is not merely busy."""
READ_BYTES = 1 << 16
LOOK_SECONDS = 0.5
"""The interval in seconds at which an answer that arrives piece by piece is checked to be still wanted."""
ANSWER_PATIENCE = 3
"""The most time that a whole answer may take, as a multiple of the time that the server may be silent."""


class WayOut(Protocol):
    """The part of a network that a session needs."""

    def open_socket(self, scheme: str, host: str, port: int, timeout_seconds: float | None) -> socket.socket: ...

    def open_proxy_socket(self, host: str, port: int, timeout_seconds: float | None) -> socket.socket: ...

    def proxy_for(self, url: str) -> str | None: ...


class PolicedSession(requests.Session):
    """A session that follows no redirect, keeps no cookie and looks for no password in ~/.netrc.

    With `tls`, that alone decides which certificates are believed.
    """

    def __init__(self, network: WayOut, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self.auth = _as_it_is
        adapter = _Adapter(network, tls)
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None. With a target, requests would read a redirect's body to its end, however long, even without
        following it."""


class AnswerTimeout(requests.ReadTimeout):
    """The server kept sending, but did not finish in time."""


def waits(timeout_seconds: float) -> tuple[float, float]:
    """Return the timeouts of a request (to connect, for each silence), as far as the caller's deadline allows."""
    bearable_seconds = max(0.001, min(timeout_seconds, deadlines.seconds_left()))
    return min(CONNECT_SECONDS, bearable_seconds), bearable_seconds


class AnswerLimit:
    """Bounds one answer: its connection is cut after `seconds` or at the caller's deadline, `silence_seconds` after the
    last `heard`, and once `is_unwanted`, or else the caller's work, says so, which another thread asks twice a second.

    The timeouts of requests only limit each silence between bytes.
    """

    def __init__(
        self, seconds: float, *, silence_seconds: float = math.inf, is_unwanted: Callable[[], bool] | None = None
    ) -> None:
        now = time.monotonic()
        self._ends_at = now + min(seconds, deadlines.seconds_left())
        self._silence_seconds = silence_seconds
        self._heard_at = now
        self._is_unwanted = is_unwanted or deadlines.unwanted()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._end = threading.Event()
        self._is_over = self._is_cut = False

    def __enter__(self) -> Self:
        """Begin to watch. Raises AnswerTimeout when there is no time at all, and NoThreadError."""
        if self._seconds_left() <= 0:
            raise AnswerTimeout
        begin_thread("answer-limit", self._watch_time)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        with self._lock:
            self._socket = None

    def heard(self) -> None:
        """Note that the server has said something that counts."""
        self._heard_at = time.monotonic()

    @contextmanager
    def of_request(self) -> Iterator[None]:
        """Bound the answer to the one request that the block makes."""
        token = _limit.set(self)
        try:
            yield
        finally:
            _limit.reset(token)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Raise AnswerTimeout when the time was over before the block's end, also for an answer whose cut end looks
        like a regular one."""
        try:
            yield
        except requests.RequestException as error:
            if self._is_over:
                raise AnswerTimeout from error
            raise
        if self._is_over:
            raise AnswerTimeout

    def watch(self, connected: socket.socket | None) -> None:
        """Take the socket to cut."""
        with self._lock:
            if self._is_cut:
                raise TimeoutError("the time for this answer is over")
            self._socket = connected

    def _seconds_left(self) -> float:
        return min(self._ends_at, self._heard_at + self._silence_seconds) - time.monotonic()

    def _watch_time(self) -> None:
        asks = self._is_unwanted
        while (left_seconds := self._seconds_left()) > 0:
            if self._end.wait(left_seconds if asks is None else min(left_seconds, LOOK_SECONDS)):
                return
            if asks is not None and asks():
                break
        else:
            self._is_over = True
        self._cut()

    def _cut(self) -> None:
        with self._lock:
            self._is_cut = True
            if isinstance(self._socket, socket.socket):
                with suppress(OSError):
                    # The method of a TLS socket would end its session under the reading thread.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


_limit: ContextVar[AnswerLimit | None] = ContextVar("answer_limit", default=None)


@contextmanager
def answer_within(seconds: float) -> Iterator[None]:
    """Cut the connection of the one request that the block makes and reads after that many seconds, or at the caller's
    deadline. Raises AnswerTimeout then, and ClientGoneError when the client has left for whom this thread reads."""
    reads = read_limits.current()
    is_unwanted = reads.client_has_left if reads else None
    try:
        with AnswerLimit(seconds, is_unwanted=is_unwanted) as limit, limit.of_request(), limit.kept():
            yield
    finally:
        if reads and reads.has_left:
            raise ClientGoneError


def arriving(response: requests.Response) -> Iterator[bytes]:
    """Yield the body of an answer as it arrives, unlike `iter_content`, which waits until a piece has its full length.

    Raises requests' errors.
    """
    try:
        while piece := response.raw.read1(READ_BYTES, decode_content=True):
            yield piece
    except (ProtocolError, DecodeError) as error:
        raise requests.exceptions.ChunkedEncodingError(error) from error
    except (ReadTimeoutError, SSLError) as error:
        raise requests.ConnectionError(error) from error


def is_read_timeout(error: requests.RequestException) -> bool:
    # While a body is read, requests reports the timeout as a ConnectionError around urllib3's.
    inner = error.args[0] if error.args else None
    return isinstance(error, requests.ReadTimeout) or isinstance(inner, ReadTimeoutError)


class _Adapter(HTTPAdapter):
    """An adapter of requests whose new connections come from a network."""

    def __init__(self, network: WayOut, tls: ssl.SSLContext | None) -> None:
        self._network = network
        self._tls = tls
        self._pools = _pool_classes(network)
        super().__init__(pool_maxsize=MAX_CONNECTIONS)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        if self._tls is not None:
            kwargs |= {"ssl_context": self._tls, "assert_hostname": None if self._tls.check_hostname else False}
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        if not proxy.lower().startswith("socks"):
            manager.pool_classes_by_scheme = self._pools
        return manager

    def cert_verify(self, conn: HTTPSConnectionPool, url: str, verify: Any, cert: Any) -> None:
        """Leave a context as it is. The library would add its own authorities, or those of the environment."""
        if self._tls is None:
            super().cert_verify(conn, url, verify, cert)

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        proxy = self._network.proxy_for(str(request.url).partition("?")[0])
        if self._tls is not None:
            kwargs["verify"] = True
        return super().send(request, *args, **{**kwargs, "proxies": {"all": proxy} if proxy else {}})


def _pool_classes(network: WayOut) -> dict[str, type[HTTPConnectionPool]]:
    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _open(network, "http", self)

        def connect(self) -> None:
            super().connect()
            _watch(self)

        def request(self, *args: Any, **kwargs: Any) -> None:
            _watch(self)
            super().request(*args, **kwargs)

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _open(network, "https", self)

        def connect(self) -> None:
            super().connect()
            _watch(self)

        def request(self, *args: Any, **kwargs: Any) -> None:
            _watch(self)
            super().request(*args, **kwargs)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


def _watch(connection: HTTPConnection) -> None:
    limit = _limit.get()
    if limit is not None:
        limit.watch(connection.sock)


def _open(network: WayOut, scheme: str, connection: HTTPConnection) -> socket.socket:
    """Open a connection and raise failures as urllib3 would, so that requests translates them."""
    limit = connection.timeout if isinstance(connection.timeout, int | float) else None
    host, port = connection.host.strip("[]"), connection.port
    try:
        if connection.proxy is not None:
            return network.open_proxy_socket(host, port, limit)
        return network.open_socket(scheme, host, port, limit)
    except TimeoutError as error:
        raise ConnectTimeoutError(connection, "the connection could not be opened in time") from error
    except OSError as error:
        raise NewConnectionError(connection, "the connection could not be opened") from error


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request
