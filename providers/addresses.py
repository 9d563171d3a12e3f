"""Which hosts a connection may reach: the operator's policy, judged on addresses and never on how they are written.

Whoever may define connections may send this service to any address it can reach. Link-local addresses, which hand
credentials of the machine to whoever asks, are therefore never reached, in whatever notation or behind whatever name.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from schemas.errors import ConfigurationError, InvalidInputError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
Reach = Literal["loopback", "private", "public", "never"]

SCHEMES = ("http", "https")
REACHES = ("loopback", "private", "public")
DEFAULT_POLICY = "loopback,private,public"

# Where clouds answer with a machine's credentials outside of the link-local ranges.
_METADATA = frozenset(
    ipaddress.ip_address(each)
    for each in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "fd00:42::42")
)
_NEVER = tuple(ipaddress.ip_network(each) for each in ("0.0.0.0/8", "169.254.0.0/16", "fe80::/10"))
_CARRIES_IPV4 = tuple(
    ipaddress.ip_network(each) for each in ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")
)
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f\\]")


class BlockedError(InvalidInputError):
    """The policy does not let a connection go there. The sentence holds nothing that the caller did not say."""

    code = "connection_blocked"

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, error_type="blocked")


@dataclass(frozen=True, slots=True)
class _Rule:
    scheme: str | None
    target: str | IPNetwork
    """One of `REACHES`, a pattern for host names, or a network."""

    def allows(self, scheme: str, host: str, address: Address) -> bool:
        if self.scheme not in (None, scheme):
            return False
        if not isinstance(self.target, str):
            return address in self.target
        return reach_of(address) == self.target if self.target in REACHES else fnmatchcase(host, self.target)


@dataclass(frozen=True, slots=True)
class ConnectPolicy:
    """What `RAG_CONNECT_POLICY` allows."""

    rules: tuple[_Rule, ...]

    @classmethod
    def parse(cls, text: str) -> ConnectPolicy:
        """Rules with commas between: `loopback`, `private`, `public`, a host (`*.example.com`) or a network
        (`10.0.0.0/8`), each with or without `https://` before it. Raises ConfigurationError."""
        rules = [_rule(part.strip().lower()) for part in text.split(",") if part.strip()]
        if not rules:
            raise ConfigurationError("RAG_CONNECT_POLICY allows nothing: leave it out for the default")
        return cls(tuple(rules))

    def allows(self, scheme: str, host: str, address: Address) -> bool:
        address = embedded(address)
        return reach_of(address) != "never" and any(rule.allows(scheme, host, address) for rule in self.rules)


def _rule(text: str) -> _Rule:
    scheme, separator, target = text.rpartition("://")
    if separator and scheme not in SCHEMES:
        raise ConfigurationError(f"RAG_CONNECT_POLICY: '{text}' has a scheme other than {' and '.join(SCHEMES)}")
    try:
        return _Rule(scheme or None, ipaddress.ip_network(target.strip("[]")))
    except ValueError:
        pass
    if not re.fullmatch(r"[a-z0-9*?._-]+", target):
        raise ConfigurationError(f"RAG_CONNECT_POLICY: '{text}' is not {', '.join(REACHES)}, a host or a network")
    return _Rule(scheme or None, target)


def split_url(url: str) -> SplitResult:
    """The parts of a service's URL. Raises InvalidInputError when it is none; the URL is not quoted, because it may
    hold a password."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0 and not _UNPRINTABLE.search(url)
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidInputError(
            "The URL of a service must be http(s)://host[:port][/path], without credentials, query or fragment",
            code="invalid_url",
            field="url",
            error_type="invalid_config",
        )
    return parts


def reach_of(address: Address) -> Reach:
    """Which of the policy's words an address falls under."""
    address = embedded(address)
    if address in _METADATA or any(address in each for each in _NEVER if each.version == address.version):
        return "never"
    if address.is_unspecified or address.is_multicast or address == ipaddress.ip_address("255.255.255.255"):
        return "never"
    if address.is_loopback:
        return "loopback"
    return "public" if address.is_global else "private"


def embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for (mapped, translated, 6to4, Teredo), or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour or address
    if address.teredo:
        return address.teredo[1]
    if any(address in each for each in _CARRIES_IPV4) and int(address) & 0xFFFFFFFF > 1 and not address.is_loopback:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
