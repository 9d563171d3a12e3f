"""Connections that another thread can end.

A thread that reads a socket cannot be interrupted, but its socket can be shut down under it: that is how the async
client gives a request up.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import DecodeError, ProtocolError, ReadTimeoutError, SSLError

READ_BYTES = 1 << 16


class GivingUp:
    """Ends the request that a thread makes in `of_this_thread`, and the answer to it, when another thread asks.

    A connection that has served its request belongs to the next one, and is left alone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: _Plain | _Secure | None = None
        self._socket: Any = None
        self._is_asked = False

    @contextmanager
    def of_this_thread(self) -> Iterator[None]:
        token = _asked.set(self)
        try:
            yield
        finally:
            _asked.reset(token)

    def watch(self, connection: _Plain | _Secure) -> None:
        with self._lock:
            if self._is_asked:
                raise ConnectionAbortedError("the request was given up")
            # A connection that ends with its answer forgets its socket before that is read.
            self._connection, self._socket = connection, connection.sock

    def ask(self) -> None:
        with self._lock:
            self._is_asked = True
            if self._connection is not None and self._connection.serves is self:
                _shut_down(self._socket)

    def forget(self) -> None:
        """Let go of the connection, because the answer has ended."""
        with self._lock:
            self._connection = self._socket = None


_asked: ContextVar[GivingUp | None] = ContextVar("giving_up", default=None)


def _watch(connection: _Plain | _Secure) -> None:
    giving_up = _asked.get()
    connection.serves = giving_up
    if giving_up is not None:
        giving_up.watch(connection)


def _shut_down(connected: Any) -> None:
    if isinstance(connected, socket.socket):
        with suppress(OSError):
            # The method of a TLS socket would end its session under the reading thread.
            socket.socket.shutdown(connected, socket.SHUT_RDWR)


class _Plain(HTTPConnection):
    serves: GivingUp | None = None
    """What may end the request that the connection works for."""

    def connect(self) -> None:
        super().connect()
        _watch(self)

    def request(self, *args: Any, **kwargs: Any) -> None:
        _watch(self)
        super().request(*args, **kwargs)


class _Secure(HTTPSConnection):
    serves: GivingUp | None = None
    """What may end the request that the connection works for."""

    def connect(self) -> None:
        super().connect()
        _watch(self)

    def request(self, *args: Any, **kwargs: Any) -> None:
        _watch(self)
        super().request(*args, **kwargs)


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _Secure


_POOLS = {"http": _PlainPool, "https": _SecurePool}


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        if not proxy.lower().startswith("socks"):
            manager.pool_classes_by_scheme = _POOLS
        return manager


def new_session(connections: int) -> requests.Session:
    """Return a session that keeps so many connections open."""
    session = requests.Session()
    adapter = _Adapter(pool_connections=1, pool_maxsize=connections)
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    return session


def arriving(response: requests.Response) -> Iterator[bytes]:
    """Yield the body of an answer as it arrives, unlike `iter_content`, which waits until a piece has its full length.

    Raises errors of `requests`.
    """
    if getattr(response, "_content_consumed", False):  # by a session of the caller's, or a hook in it
        yield response.content
        return
    try:
        while piece := response.raw.read1(READ_BYTES, decode_content=True):
            yield piece
    except (ProtocolError, DecodeError) as error:
        raise requests.exceptions.ChunkedEncodingError(error) from error
    except ReadTimeoutError as error:
        raise requests.ReadTimeout(error) from error
    except SSLError as error:
        raise requests.ConnectionError(error) from error
