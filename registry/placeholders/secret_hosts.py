"""Rules for where secrets may go: `RAG_SECRET_HOSTS` binds a variable or a file to the hosts it belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from providers.outbound.addresses import SCHEMES, split_url
from providers.outbound.network import DEFAULT_PORTS
from schemas.errors import ConfigurationError, InvalidInputError

FILE = "file:"
_RULE = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*|file:/[^=]*)\s*=\s*(?:(?P<scheme>[a-z]+)://)?"
    r"(?P<host>[a-z0-9*?._-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?/?",
)


class _Destination(NamedTuple):
    scheme: str | None
    host: str
    port: int | None

    def is_at(self, url: str) -> bool:
        try:
            parts = split_url(url)
        except InvalidInputError:
            return False
        return (
            self.scheme in (None, parts.scheme)
            and self.port in (None, parts.port or DEFAULT_PORTS[parts.scheme])
            and fnmatchcase(str(parts.hostname).rstrip("."), self.host)
        )


@dataclass(frozen=True, slots=True)
class SecretHosts:
    """The hosts that each bound variable or file may go to; one that is not bound may go anywhere."""

    destinations: dict[str, tuple[_Destination, ...]]

    @classmethod
    def parse(cls, rules: Iterable[str]) -> SecretHosts:
        """Parse rules like `OPENAI_API_KEY=api.openai.com`.

        The left side is a variable or `file:/path`. The right side is a host (`*.example.com` too), optionally with a
        port and with `https://` before it. Raises ConfigurationError when a rule is malformed.
        """
        found: dict[str, tuple[_Destination, ...]] = {}
        for rule in rules:
            name, equals, place = rule.partition("=")
            parsed = _RULE.fullmatch(f"{name}{equals}{place.lower()}")
            if parsed is None or (parsed["scheme"] or "http") not in SCHEMES:
                raise ConfigurationError(f"RAG_SECRET_HOSTS: '{rule}' is not VARIABLE=host or VARIABLE=host:port")
            port = None if parsed["port"] is None else int(parsed["port"])
            host = parsed["host"].strip("[]").rstrip(".")
            key = _key(parsed["name"])
            found[key] = (*found.get(key, ()), _Destination(parsed["scheme"], host, port))
        return cls(found)

    def allows(self, reference: str, urls: Sequence[str]) -> bool:
        """Return whether a variable, or `file:/path`, may be sent to all of these addresses.

        One that is bound to hosts may not be sent when no address is known.
        """
        destinations = self.destinations.get(_key(reference))
        if destinations is None:
            return True
        return bool(urls) and all(any(each.is_at(url) for each in destinations) for url in urls)


def _key(reference: str) -> str:
    if not reference.startswith(FILE):
        return reference
    try:
        return FILE + str(Path(reference.removeprefix(FILE)).resolve())
    except (OSError, RuntimeError, ValueError):
        return reference


ANYWHERE = SecretHosts({})
