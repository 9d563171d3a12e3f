"""Sessions of requests that open their connections through a network, and a limit for the whole of an answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Protocol

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ReadTimeoutError

from providers.outbound import deadlines

MAX_CONNECTIONS = 32
CONNECT_SECONDS = 5.0
"""The seconds that a host has to accept a connection. One that takes longer is not merely busy."""
ANSWER_PATIENCE = 3
"""The most time that a whole answer may take, as a multiple of the time that the server may be silent."""


class WayOut(Protocol):
    """The part of a network that a session needs."""

    def open_socket(self, scheme: str, host: str, port: int, timeout_seconds: float | None) -> socket.socket: ...

    def open_proxy_socket(self, host: str, port: int, timeout_seconds: float | None) -> socket.socket: ...

    def proxy_for(self, url: str) -> str | None: ...


class PolicedSession(requests.Session):
    """A session that follows no redirect, keeps no cookie and looks for no password in ~/.netrc."""

    def __init__(self, network: WayOut) -> None:
        super().__init__()
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self.auth = _as_it_is
        adapter = _Adapter(network)
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


@contextmanager
def answer_within(seconds: float) -> Iterator[None]:
    """Cut the connection of the one request that the block makes and reads after that many seconds, or at the caller's
    deadline.

    The timeouts of requests only limit each silence. Raises AnswerTimeout, also for an answer whose cut end looks like
    a regular one.
    """
    seconds = min(seconds, deadlines.seconds_left())
    if seconds <= 0:
        raise AnswerTimeout
    limit = _Limit()
    timer = threading.Timer(seconds, limit.cut)
    timer.daemon = True
    token = _limit.set(limit)
    timer.start()
    try:
        yield
    except requests.RequestException as error:
        if limit.is_over:
            raise AnswerTimeout from error
        raise
    finally:
        _limit.reset(token)
        timer.cancel()
        limit.end()
    if limit.is_over:
        raise AnswerTimeout


def is_read_timeout(error: requests.RequestException) -> bool:
    # While a body is read, requests reports the timeout as a ConnectionError around urllib3's.
    inner = error.args[0] if error.args else None
    return isinstance(error, requests.ReadTimeout) or isinstance(inner, ReadTimeoutError)


class _Limit:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.is_over = False

    def watch(self, connected: socket.socket | None) -> None:
        with self._lock:
            if self.is_over:
                raise TimeoutError("the time for this answer is over")
            self._socket = connected

    def cut(self) -> None:
        with self._lock:
            self.is_over = True
            if isinstance(self._socket, socket.socket):
                with suppress(OSError):
                    # The method of a TLS socket would end its session under the reading thread.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def end(self) -> None:
        with self._lock:
            self._socket = None


_limit: ContextVar[_Limit | None] = ContextVar("answer_limit", default=None)


class _Adapter(HTTPAdapter):
    """An adapter of requests whose new connections come from a network."""

    def __init__(self, network: WayOut) -> None:
        self._network = network
        self._pools = _pool_classes(network)
        super().__init__(pool_maxsize=MAX_CONNECTIONS)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        if not proxy.lower().startswith("socks"):
            manager.pool_classes_by_scheme = self._pools
        return manager

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        proxy = self._network.proxy_for(str(request.url).partition("?")[0])
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
