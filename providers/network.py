"""The way out: every connection to another service is opened here, to an address that the policy allows.

A name is resolved once and the address that was judged is the one connected to, so that a name whose answer changes
between the two gains nothing. Redirects are nobody's to follow. Proxies of the environment are used as usual, except
for loopback addresses; what they resolve is theirs.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.cookiejar import DefaultCookiePolicy
from typing import Any, NamedTuple

import requests
from requests.adapters import HTTPAdapter
from requests.utils import select_proxy
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from providers.addresses import DEFAULT_POLICY, BlockedError, ConnectPolicy, split_url
from schemas.errors import UnavailableError

MAX_CONNECTIONS = 32
CONNECT_SECONDS = 5.0
"""A host that does not even accept is not busy with the request."""

Resolver = Callable[..., list[tuple[Any, ...]]]


class Endpoint(NamedTuple):
    """Where a socket goes: an address family of `socket` and its address there."""

    family: int
    address: tuple[Any, ...]


class Network:
    """Sockets and sessions under one policy; usable by several threads. `resolve` is `socket.getaddrinfo`."""

    def __init__(self, policy: ConnectPolicy | None = None, *, resolve: Resolver = socket.getaddrinfo) -> None:
        self._policy = policy or ConnectPolicy.parse(DEFAULT_POLICY)
        self._resolve = resolve

    def endpoints(self, scheme: str, host: str, port: int) -> list[Endpoint]:
        """Where a host's name leads, as far as it may be followed. Raises BlockedError, or UnavailableError when
        nobody knows the name."""
        try:
            found = self._resolve(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise UnavailableError(f"The host name '{host}' cannot be resolved", error_type="network") from error
        endpoints = [Endpoint(each[0], each[4]) for each in found]
        # One bad address among good ones is what an attack on the resolution looks like.
        if not endpoints or not all(self._allows(scheme, host, each) for each in endpoints):
            raise BlockedError(f"Connections to '{host}' are not allowed here (RAG_CONNECT_POLICY)")
        return endpoints

    def _allows(self, scheme: str, host: str, endpoint: Endpoint) -> bool:
        address, _, _ = str(endpoint.address[0]).partition("%")
        return self._policy.allows(scheme, host.lower().rstrip("."), ipaddress.ip_address(address))

    def open_socket(self, scheme: str, host: str, port: int, timeout_seconds: float | None) -> socket.socket:
        """A connected socket. Raises OSError when no address accepts, else what `endpoints` raises."""
        failure: OSError | None = None
        for family, address in self.endpoints(scheme, host, port):
            connecting = socket.socket(family, socket.SOCK_STREAM)
            try:
                connecting.settimeout(timeout_seconds)
                connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connecting.connect(address)
            except OSError as error:
                connecting.close()
                failure = error
            else:
                return connecting
        raise failure or OSError("no address")

    def session(self, url: str) -> requests.Session:
        """A session for the service at `url`, without cookies. Ask with `allow_redirects=False`."""
        session = requests.Session()
        # A proxy for the internet does not know this machine.
        session.trust_env = not is_loopback(url)
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        adapter = _Adapter(self)
        session.mount("http://", adapter)
        session.mount("https://", adapter)
        return session

    @contextmanager
    def within(self, seconds: float) -> Iterator[Network]:
        """A network for one piece of work: names keep their first answer, and after `seconds`, or at the end of the
        block, every connection is cut, whatever a peer that drips or never ends is still sending."""
        network = _BriefNetwork(self._policy, resolve=self._resolve)
        timer = threading.Timer(seconds, network.cut)
        timer.daemon = True
        timer.start()
        try:
            yield network
        finally:
            timer.cancel()
            network.cut()


class _BriefNetwork(Network):
    def __init__(self, policy: ConnectPolicy, *, resolve: Resolver) -> None:
        super().__init__(policy, resolve=resolve)
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, int], list[Endpoint]] = {}
        self._handles: list[socket.socket] = []
        self._is_cut = False

    def endpoints(self, scheme: str, host: str, port: int) -> list[Endpoint]:
        key = (scheme, host, port)
        if key not in self._known:
            self._known[key] = super().endpoints(scheme, host, port)
        return self._known[key]

    def open_socket(self, scheme: str, host: str, port: int, timeout_seconds: float | None) -> socket.socket:
        if self._is_cut:
            raise TimeoutError("the time for this connection is over")
        opened = super().open_socket(scheme, host, port, timeout_seconds)
        with self._lock:
            # TLS takes the socket over: a second handle on it is what can still be shut down.
            self._handles.append(opened.dup())
        if self._is_cut:
            self.cut()
        return opened

    def cut(self) -> None:
        self._is_cut = True
        with self._lock:
            while self._handles:
                handle = self._handles.pop()
                with suppress(OSError):
                    handle.shutdown(socket.SHUT_RDWR)
                handle.close()


class _Adapter(HTTPAdapter):
    """Requests' own adapter, whose new connections come from a network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        super().__init__(pool_maxsize=MAX_CONNECTIONS)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _pool_classes(self._network)

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        parts = split_url(str(request.url).partition("?")[0])
        if select_proxy(str(request.url), kwargs.get("proxies") or {}):
            self._judge_before_proxy(parts.scheme, str(parts.hostname), parts.port or 80)
        return super().send(request, *args, **kwargs)

    def _judge_before_proxy(self, scheme: str, host: str, port: int) -> None:
        # A name that only the proxy knows is the proxy's to judge.
        with suppress(UnavailableError):
            self._network.endpoints(scheme, host, port)


def _pool_classes(network: Network) -> dict[str, type[HTTPConnectionPool]]:
    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _open(network, "http", self)

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _open(network, "https", self)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


def _open(network: Network, scheme: str, connection: HTTPConnection) -> socket.socket:
    """In urllib3's words, so that requests makes its own of what goes wrong."""
    limit = connection.timeout if isinstance(connection.timeout, int | float) else CONNECT_SECONDS
    try:
        return network.open_socket(scheme, connection.host.strip("[]"), connection.port or 80, limit)
    except TimeoutError as error:
        raise ConnectTimeoutError(connection, "the connection could not be opened in time") from error
    except OSError as error:
        raise NewConnectionError(connection, "the connection could not be opened") from error


def is_loopback(url: str) -> bool:
    """Whether a URL names this machine."""
    host = split_url(url).hostname or ""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False
