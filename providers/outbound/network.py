"""The way out: every connection to another service is opened here, to an address that the policy allows.

A name is resolved once and the address that was judged is the one connected to, so that a name whose answer changes
between the two gains nothing. Where the service keeps its own data, behind no keys, no connection leads, whatever the
policy says. Proxies of the environment are used as usual, except for loopback addresses; a proxy is the operator's
choice and is not judged, and what it resolves is its own.
"""

from __future__ import annotations

import ipaddress
import math
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import requests
from requests.utils import get_environ_proxies, select_proxy
from urllib3.util import parse_url

from providers.outbound.addresses import (
    DEFAULT_POLICY,
    Address,
    BlockedError,
    ConnectPolicy,
    embedded,
    reach_of,
    split_url,
)
from providers.outbound.calls import Told, untold
from providers.outbound.http_sessions import CONNECT_SECONDS, PolicedSession
from providers.outbound.trust import Trust
from schemas.errors import UnavailableError
from schemas.threads import begin

MAX_ADDRESSES = 8
"""The most addresses of one name that are tried."""
DEFAULT_PORTS = {"http": 80, "https": 443}

Resolver = Callable[..., list[tuple[Any, ...]]]
OffLimits = Callable[[], Iterable[tuple[str, int]]]
"""Returns the hosts and ports that no connection may lead to, as they are now."""


class Endpoint(NamedTuple):
    """The place that a socket connects to: an address family of `socket`, and an address of that family."""

    family: int
    address: tuple[Any, ...]

    @property
    def ip(self) -> Address:
        written, _, _ = str(self.address[0]).partition("%")
        return ipaddress.ip_address(written)


class Network:
    """Opens sockets and sessions under one policy; usable by several threads. `resolve` is `socket.getaddrinfo`.

    Without `trust`, sessions believe the authorities that `REQUESTS_CA_BUNDLE` names, else those of certifi.
    """

    def __init__(
        self,
        policy: ConnectPolicy | None = None,
        *,
        resolve: Resolver = socket.getaddrinfo,
        trust: Trust | None = None,
        off_limits: OffLimits = tuple,
        told: Told = untold,
    ) -> None:
        self._trust = trust
        self._policy = policy or ConnectPolicy.parse(DEFAULT_POLICY)
        self._resolve = resolve
        self._off_limits = off_limits
        self.told = told

    def endpoints(self, scheme: str, host: str, port: int) -> list[Endpoint]:
        """Return the addresses of a host when the policy allows all of them and none is off limits. Raises BlockedError
        otherwise, and UnavailableError when the name cannot be resolved.

        No sentence quotes the name, which may have come out of a placeholder.
        """
        name = host.lower().rstrip(".")  # urllib3 drops the final dot too
        hidden = [its_host for its_host, its_port in self._off_limits() if its_port == port]
        # By its name even while it cannot be resolved: a proxy would be asked then.
        if name in hidden:
            raise BlockedError
        found = self._resolved(name, port)
        # An attack on name resolution looks like one bad address among good ones.
        if not found or not all(self._policy.allows(scheme, name, each.ip) for each in found):
            raise BlockedError
        if hidden and self._meet(found, hidden, port):
            raise BlockedError
        return found

    def open_socket(self, scheme: str, host: str, port: int, timeout_seconds: float | None) -> socket.socket:
        """Return a connected socket with that timeout for each wait; without one, only connecting is limited. Raise
        OSError when no address accepts, and what `endpoints` raises."""
        return self._connect(self.endpoints(scheme, host, port), timeout_seconds)

    def open_proxy_socket(self, host: str, port: int, timeout_seconds: float | None) -> socket.socket:
        """Return a socket to the environment's proxy. Raise what `open_socket` raises, except BlockedError."""
        return self._connect(self._resolved(host, port), timeout_seconds)

    def reach(self, url: str, timeout_seconds: float | None) -> socket.socket:
        """Return the socket that a session's request to `url` would get, to a proxy or not. Raise what `open_socket`
        raises."""
        parts = split_url(url)
        proxy = self.proxy_for(url)
        if proxy is None:
            port = parts.port or DEFAULT_PORTS[parts.scheme]
            return self.open_socket(parts.scheme, str(parts.hostname), port, timeout_seconds)
        there = parse_url(proxy if "://" in proxy else f"http://{proxy}")
        port = there.port or DEFAULT_PORTS.get(there.scheme or "", 1080)
        return self.open_proxy_socket((there.host or "").strip("[]"), port, timeout_seconds)

    def proxy_for(self, url: str) -> str | None:
        """Return the environment's proxy for a service's URL, None when the service is asked directly. Raise
        BlockedError."""
        proxy: str | None = select_proxy(url, get_environ_proxies(url))
        if proxy is None:
            return None
        parts = split_url(url)
        try:
            found = self.endpoints(parts.scheme, str(parts.hostname), parts.port or DEFAULT_PORTS[parts.scheme])
        except UnavailableError:
            return proxy  # the proxy judges names that only it knows
        # A proxy for the internet does not know this machine.
        return None if all(reach_of(each.ip) == "loopback" for each in found) else proxy

    def session(self, url: str) -> requests.Session:
        """Return a session for the service at `url`: no cookies, no passwords of ~/.netrc, no redirects.

        Raises ConfigurationError when the file of the trusted certificates cannot be read.
        """
        is_secure = split_url(url).scheme == "https"
        return PolicedSession(self, self._trust.context() if is_secure and self._trust is not None else None)

    def seconds_left(self) -> float:
        """Return the seconds until every connection is cut: infinite, except for a network of `within`."""
        return math.inf

    @contextmanager
    def within(self, seconds: float) -> Iterator[Network]:
        """Give a network for one piece of work.

        Names keep the address they resolved to first. After `seconds`, or at the end of the block, every connection is
        cut, even while a peer that drips or never ends is still sending. Raises NoThreadError.
        """
        network = _BriefNetwork(self._policy, self._resolve, self._trust, self._off_limits, self.told, seconds)
        timer = threading.Timer(seconds, network.cut)
        begin(timer)
        try:
            yield network
        finally:
            timer.cancel()
            network.cut()

    def _meet(self, endpoints: Sequence[Endpoint], hosts: Sequence[str], port: int) -> bool:
        """Return whether any of the endpoints is on one of these hosts, or a host cannot be resolved."""
        try:
            taken = {_machine_of(each.ip) for host in hosts for each in self._resolved(host, port)}
        except UnavailableError:
            return True
        return any(_machine_of(each.ip) in taken for each in endpoints)

    def _resolved(self, host: str, port: int) -> list[Endpoint]:
        try:
            found = self._resolve(host, port, type=socket.SOCK_STREAM)
        except (OSError, ValueError) as error:
            raise UnavailableError("The service's host name cannot be resolved", error_type="network") from error
        return [Endpoint(each[0], each[4]) for each in found]

    def _connect(self, endpoints: Sequence[Endpoint], timeout_seconds: float | None) -> socket.socket:
        tried = endpoints[:MAX_ADDRESSES]
        ends_at = time.monotonic() + (CONNECT_SECONDS if timeout_seconds is None else timeout_seconds)
        failure: OSError | None = None
        for position, (family, address) in enumerate(tried):
            # Each address has its share of the time that is left, so that a silent one does not use it up.
            share_seconds = (ends_at - time.monotonic()) / (len(tried) - position)
            connecting = socket.socket(family, socket.SOCK_STREAM)
            try:
                connecting.settimeout(max(share_seconds, 0.001))
                connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connecting.connect(address)
                connecting.settimeout(timeout_seconds)
            except OSError as error:
                connecting.close()
                failure = error
            else:
                return connecting
        raise failure or OSError("no address")


class _BriefNetwork(Network):
    def __init__(
        self,
        policy: ConnectPolicy,
        resolve: Resolver,
        trust: Trust | None,
        off_limits: OffLimits,
        told: Told,
        seconds: float,
    ) -> None:
        super().__init__(policy, resolve=resolve, trust=trust, off_limits=off_limits, told=told)
        self._ends_at = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int], list[Endpoint]] = {}
        self._handles: list[socket.socket] = []
        self._is_cut = False

    def seconds_left(self) -> float:
        return 0.0 if self._is_cut else max(0.0, self._ends_at - time.monotonic())

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            while self._handles:
                handle = self._handles.pop()
                with suppress(OSError):
                    handle.shutdown(socket.SHUT_RDWR)
                handle.close()

    def _resolved(self, host: str, port: int) -> list[Endpoint]:
        key = (host, port)
        if key not in self._known:
            self._known.setdefault(key, super()._resolved(host, port))
        return self._known[key]

    def _connect(self, endpoints: Sequence[Endpoint], timeout_seconds: float | None) -> socket.socket:
        seconds_left = self.seconds_left()
        if not seconds_left:
            raise TimeoutError("the time for this connection is over")
        opened = super()._connect(endpoints, min(seconds_left, timeout_seconds or math.inf))
        with self._lock:
            if self._is_cut:
                opened.close()
                raise TimeoutError("the time for this connection is over")
            # TLS takes the socket over; a second handle can still shut it down.
            self._handles.append(opened.dup())
        return opened


def _machine_of(address: Address) -> Address | None:
    """Return what stands for the machine at an address: the address, or None for this machine by any of its own."""
    address = embedded(address)
    if address.is_loopback:
        return None
    try:
        with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))  # only this machine's own addresses can be bound to
    except OSError:
        return address
    return None
