"""Judges which hosts a connection may reach: the operator's policy applies to addresses, however they are written.

Whoever may define connections may send this service to any address it can reach. Link-local addresses, which hand out
the machine's credentials, are therefore never reached, in whatever notation or under whatever name.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from schemas.errors import ConfigurationError, InvalidInputError
from schemas.settings import RegistrySettings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
Reach = Literal["loopback", "private", "public", "never"]

SCHEMES = ("http", "https")
REACHES = ("loopback", "private", "public")
DEFAULT_POLICY = RegistrySettings.connect_policy

# Where clouds answer with a machine's credentials: AWS, ECS, EKS, Alibaba, Azure, Oracle, GCP, Linode, Scaleway.
_METADATA = frozenset(
    ipaddress.ip_address(each)
    for each in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd20:ce::254",
        "fd00:a9fe:a9fe::1",
        "fd00:42::42",
    )
)
_NEVER = tuple(
    ipaddress.ip_network(each)
    for each in (
        "0.0.0.0/8",
        "169.254.0.0/16",
        "224.0.0.0/4",
        "255.255.255.255/32",
        "::/128",
        "fe80::/10",
        "ff00::/8",
        "fd00:ec2::/32",  # AWS: metadata, pod identity, the VPC's own services
    )
)
_CARRIES_IPV4 = tuple(
    ipaddress.ip_network(each) for each in ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")
)
# Where RFC 6052 puts the four bytes of an IPv4 address, for prefixes of 96, 64, 56, 48, 40 and 32 bits.
_TRANSLATED_BYTES = (
    (12, 13, 14, 15),
    (9, 10, 11, 12),
    (7, 9, 10, 11),
    (6, 7, 9, 10),
    (5, 6, 7, 9),
    (4, 5, 6, 7),
)
MAX_URL_CHARACTERS = 4_096
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f\\]")


class BlockedError(InvalidInputError):
    """The policy does not let a connection reach a host. The sentence does not say where that is."""

    code = "connection_blocked"

    def __init__(self) -> None:
        super().__init__("Connections to this host are not allowed here (RAG_CONNECT_POLICY)", error_type="blocked")


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
    """The policy that `RAG_CONNECT_POLICY` states. A host that is allowed by name may have any address, except those
    that are never reached."""

    rules: tuple[_Rule, ...]

    @classmethod
    def parse(cls, text: str) -> ConnectPolicy:
        """Parse comma-separated rules: `loopback`, `private`, `public`, a host (`*.example.com`) or a network
        (`10.0.0.0/8`), each with or without `https://` in front. Raises ConfigurationError."""
        rules = [_rule(part.strip().lower()) for part in text.split(",") if part.strip()]
        if not rules:
            raise ConfigurationError("RAG_CONNECT_POLICY allows nothing: leave it out for the default")
        return cls(tuple(rules))

    def allows(self, scheme: str, host: str, address: Address) -> bool:
        """Return whether `scheme` may be spoken with `host`, a name in lower case that resolved to `address`."""
        if reach_of(address) == "never":
            return False
        target = embedded(address)
        return any(rule.allows(scheme, host, target) for rule in self.rules)


def _rule(text: str) -> _Rule:
    scheme, separator, target = text.rpartition("://")
    if separator and scheme not in SCHEMES:
        raise ConfigurationError(f"RAG_CONNECT_POLICY: '{text}' has a scheme other than {' and '.join(SCHEMES)}")
    try:
        return _Rule(scheme or None, ipaddress.ip_network(target.replace("[", "").replace("]", "")))
    except ValueError:
        pass
    if not re.fullmatch(r"[a-z0-9*?._-]+", target):
        raise ConfigurationError(f"RAG_CONNECT_POLICY: '{text}' is not {', '.join(REACHES)}, a host or a network")
    return _Rule(scheme or None, target)


def split_url(url: str) -> SplitResult:
    """Return the parts of a service's URL. Raises InvalidInputError, which does not quote the URL because it may hold a
    password, when it is not one."""
    try:
        # No real URL is longer, and `urlsplit` caches the last 128 in full.
        parts = urlsplit(url[:MAX_URL_CHARACTERS])
        usable = (
            len(url) <= MAX_URL_CHARACTERS
            and parts.scheme in SCHEMES
            and bool(parts.hostname)
            and parts.port != 0
            and not _UNPRINTABLE.search(url)
        )
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or "?" in url or "#" in url:
        raise InvalidInputError(
            "The URL of a service must be http(s)://host[:port][/path], without credentials, query or fragment, "
            f"and have at most {MAX_URL_CHARACTERS:,} characters",
            code="invalid_url",
            field="url",
            error_type="invalid_config",
        )
    return parts


def reach_of(address: Address) -> Reach:
    """Return the policy's word for an address."""
    if any(each in _METADATA for each in _translated(address)):
        return "never"
    address = embedded(address)
    if address in _METADATA or any(address in each for each in _NEVER):
        return "never"
    if address.is_loopback:
        return "loopback"
    return "public" if address.is_global else "private"


def embedded(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for (mapped, translated, 6to4, Teredo), or the address
    itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour or address
    if address.teredo:
        return address.teredo[1]
    if any(address in each for each in _CARRIES_IPV4) and int(address) > 1:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _translated(address: Address) -> Iterator[ipaddress.IPv4Address]:
    """Yield what a translator might make of an IPv6 address, under each prefix length: only the network knows which it
    uses."""
    if isinstance(address, ipaddress.IPv6Address):
        for places in _TRANSLATED_BYTES:
            yield ipaddress.IPv4Address(bytes(address.packed[place] for place in places))
