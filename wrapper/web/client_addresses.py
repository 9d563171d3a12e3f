"""The address of the client behind a request, which only trusted proxies may tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from schemas.errors import ConfigurationError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

VARIABLE = "RAG_TRUSTED_PROXIES"
LONGEST_ADDRESS = 64
MAPPED = int(IPv6Address("::ffff:0:0"))
MAPPED_BITS = 96


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """The proxies whose word about a client is believed."""

    networks: tuple[Network, ...] = ()

    @staticmethod
    def parse(texts: Iterable[str]) -> TrustedProxies:
        """Parse addresses and networks (`10.0.0.7`, `10.0.0.0/8`, `fd00::/8`). Raises ConfigurationError naming the
        first that is neither, or that is everybody."""
        return TrustedProxies(tuple(_network(text.strip()) for text in texts if text.strip()))

    def has(self, address: Address) -> bool:
        return any(address in network for network in self.networks)

    def spelled(self) -> list[str]:
        """Return the networks as gunicorn compares them: a socket for both kinds of addresses spells those of IPv4 as
        IPv6's."""
        mapped = [_mapped(each) for each in self.networks if isinstance(each, IPv4Network)]
        return [str(each) for each in (*self.networks, *mapped)]


def client_address(environ: Mapping[str, Any], trusted: TrustedProxies) -> str:
    """Return the address of the client of a WSGI request, in its shortest form, "" where there is none.

    That is the peer's, unless the peer is a trusted proxy. Then it is the last in `X-Forwarded-For` that is no trusted
    proxy's: what stands before it was said by a stranger. An entry that is no address ends the search at the proxy
    that wrote it.
    """
    said = str(environ.get("REMOTE_ADDR", ""))
    nearest = _address(said)
    if nearest is None:
        return said
    for entry in reversed(str(environ.get("HTTP_X_FORWARDED_FOR", "")).split(",")):
        if not trusted.has(nearest):
            break
        further = _address(entry)
        if further is None:
            break
        nearest = further
    return str(nearest)


@lru_cache(maxsize=1_024)
def _address(text: str) -> Address | None:
    """Return the address in an entry, which may have a port, as some proxies write it; None for anything else."""
    text = text.strip()
    if len(text) > LONGEST_ADDRESS:
        return None
    if text.startswith("["):
        text, _, rest = text[1:].partition("]")
        if rest and not _is_port(rest):
            return None
    elif text.count(":") == 1:
        text, _, port = text.partition(":")
        if not _is_port(f":{port}"):
            return None
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def _is_port(text: str) -> bool:
    return text.startswith(":") and text[1:].isascii() and text[1:].isdigit()


def _network(text: str) -> Network:
    try:
        found = ip_network(text)
    except ValueError:
        raise ConfigurationError(
            f"{VARIABLE}: '{text}' is no address or network: 10.0.0.7, 10.0.0.0/8, fd00::/8",
            field=VARIABLE,
        ) from None
    if isinstance(found, IPv6Network) and found.prefixlen >= MAPPED_BITS and found.network_address.ipv4_mapped:
        found = IPv4Network((found.network_address.ipv4_mapped, found.prefixlen - MAPPED_BITS))
    if found.prefixlen == 0:
        raise ConfigurationError(
            f"{VARIABLE}: '{text}' is everybody, and anybody could then name any address",
            field=VARIABLE,
        )
    return found


def _mapped(network: IPv4Network) -> IPv6Network:
    return IPv6Network((MAPPED + int(network.network_address), MAPPED_BITS + network.prefixlen))
