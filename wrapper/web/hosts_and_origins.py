"""The check before every route, and of requests that fit no route: the host they name and the page they come from.

Without it any page that a browser shows could use a service on this machine: by sending its forms here or, with a name
of its own that leads to this address, as if the service were its own (DNS rebinding).
"""

from __future__ import annotations

import socket
from ipaddress import ip_address

from flask import Request

from schemas.errors import ForbiddenOriginError, HostNotAllowedError
from schemas.host_patterns import DEFAULT_PORTS, Authority, HostPattern, OriginPattern
from schemas.settings import WrapperSettings

ALL_ADDRESSES = ("0.0.0.0", "::")


class AllowedHostsAndOrigins:
    """The names by which the service may be called, and the origins whose pages may call it. Threads may share it."""

    def __init__(self, settings: WrapperSettings) -> None:
        self._hosts = [HostPattern.parse(each) for each in settings.allowed_hosts]
        self._origins = [OriginPattern.parse(each) for each in settings.cors_origins]
        self._is_everywhere = settings.host in ALL_ADDRESSES
        own = {settings.host.lower()}
        if ":" in settings.host:
            own = {str(ip_address(settings.host))}
        if self._is_everywhere:
            name = socket.gethostname().lower()
            own |= {name, name.partition(".")[0]}
        self._own_names = frozenset(own)

    def check(self, request: Request) -> None:
        """Raise HostNotAllowedError or ForbiddenOriginError, without reading the body."""
        self._check_origin(request, self._checked_host(request))

    def _checked_host(self, request: Request) -> Authority | None:
        said = request.headers.get("Host")
        if said is None and request.environ.get("SERVER_PROTOCOL") == "HTTP/1.0":
            return None  # no browser: browsers name the host
        try:
            host = Authority.parse(said or "")
        except ValueError:
            raise HostNotAllowedError(said or "") from None
        known = host.is_loopback or host.host in self._own_names or (self._is_everywhere and host.is_address)
        default_port = DEFAULT_PORTS.get(request.scheme)
        if not known and not any(each.matches(host, default_port) for each in self._hosts):
            raise HostNotAllowedError(said or "")
        return host

    def _check_origin(self, request: Request, host: Authority | None) -> None:
        origin = request.headers.get("Origin")
        if origin is None:
            # Of a foreign page, a browser leaves the origin out where the page cannot read the answer, as with images.
            site = request.headers.get("Sec-Fetch-Site")
            if site in ("cross-site", "same-site") and request.method != "OPTIONS" and not _is_followed_link(request):
                raise ForbiddenOriginError(None)
            return
        if host is not None and _own_origin(request.scheme, host).matches(origin):
            return
        if not any(each.matches(origin) for each in self._origins):
            raise ForbiddenOriginError(origin)


def _is_followed_link(request: Request) -> bool:
    """Return whether a browser shows the answer to its user as a page of its own, and in no frame of another."""
    asked = request.headers.get("Sec-Fetch-Mode"), request.headers.get("Sec-Fetch-Dest")
    return request.method == "GET" and asked == ("navigate", "document")


def _own_origin(scheme: str, host: Authority) -> OriginPattern:
    port = None if host.port == DEFAULT_PORTS.get(scheme) else host.port
    return OriginPattern(scheme, HostPattern(Authority(host.host, port)))
