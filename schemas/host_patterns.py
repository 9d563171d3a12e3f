"""Compares hosts and origins by what they mean, as operators write them and browsers send them.

`*.` in front of a name stands for one label or more: `*.corp.example` is `a.corp.example` and `a.b.corp.example`, but
not `corp.example`. No other character has a meaning of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address

DEFAULT_PORTS = {"http": 80, "https": 443}
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[^\[\]:]+)(?::(?P<port>[0-9]{1,5}))?")
_ORIGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#@]+)")


@dataclass(frozen=True, slots=True)
class Authority:
    """A host in lower case, an IPv6 address without its brackets, and the port when there is one."""

    host: str
    port: int | None = None

    @staticmethod
    def parse(text: str) -> Authority:
        """Parse `localhost`, `10.0.0.7:5006` or `[::1]:5006`. Raises ValueError when the text is neither a host nor one
        with a port."""
        found = _AUTHORITY.fullmatch(text.lower())
        if found is None:
            raise ValueError("no host")
        host, port = found["host"], found["port"]
        if host.startswith("["):
            host = str(ip_address(host[1:-1]))
        else:
            host = host.removesuffix(".")
            if not _NAME.fullmatch(host):
                raise ValueError("no host")
        if port is not None and int(port) > 65535:
            raise ValueError("no port")
        return Authority(host, None if port is None else int(port))

    @property
    def is_address(self) -> bool:
        """True when the host is an IPv4 or IPv6 address, which unlike a name cannot be made to lead elsewhere."""
        try:
            ip_address(self.host)
        except ValueError:
            return False
        return True

    @property
    def is_loopback(self) -> bool:
        return self.host == "localhost" or (self.is_address and ip_address(self.host).is_loopback)


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host, or with `below` all names below it; any port when none is given."""

    authority: Authority
    below: bool = False

    @staticmethod
    def parse(text: str) -> HostPattern:
        """Parse a host. Raises ValueError when the text is not a host."""
        below = text.startswith("*.")
        authority = Authority.parse(text.removeprefix("*."))
        if below and authority.is_address:
            raise ValueError("no host")
        return HostPattern(authority, below)

    def matches(self, asked: Authority, default_port: int | None = None) -> bool:
        wanted = self.authority
        if wanted.port is not None and wanted.port != (asked.port or default_port):
            return False
        return self._names(asked.host)

    def _names(self, host: str) -> bool:
        return host.endswith(f".{self.authority.host}") if self.below else host == self.authority.host


@dataclass(frozen=True, slots=True)
class OriginPattern:
    """A set of origins: a scheme, a host or the names below it, and one port."""

    scheme: str
    host: HostPattern

    @staticmethod
    def parse(text: str) -> OriginPattern:
        """Parse `https://console.example`, `http://localhost:3000` or `https://*.corp.example`.

        Raises ValueError when the text is not an origin. An origin has no path, not even `/`.
        """
        found = _ORIGIN.fullmatch(text.lower())
        if found is None:
            raise ValueError("no origin")
        scheme, host = found["scheme"], HostPattern.parse(found["authority"])
        if host.authority.port == DEFAULT_PORTS.get(scheme):
            host = HostPattern(Authority(host.authority.host), host.below)
        return OriginPattern(scheme, host)

    def matches(self, origin: str) -> bool:
        """Return whether the set has `origin`, the header of a request."""
        try:
            asked = OriginPattern.parse(origin)
        except ValueError:
            return False
        theirs = asked.host.authority
        return (
            not asked.host.below
            and self.scheme == asked.scheme
            and self.host.authority.port == theirs.port
            and self.host.matches(theirs)
        )

    def regular_expression(self) -> re.Pattern[str]:
        """Return the set as a regular expression of whole origins, for a library that takes nothing else."""
        wanted = self.host.authority
        host = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
        port = "" if wanted.port is None else f":{wanted.port}"
        labels = rf"(?:{_LABEL}\.)+" if self.host.below else ""
        return re.compile(rf"{re.escape(self.scheme)}://{labels}{re.escape(host + port)}\Z", re.IGNORECASE)
