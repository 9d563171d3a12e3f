"""Judge the value of a variable or file by the place of its placeholder: a key in a secret, an address in a URL.

A placeholder's value goes to a host that a user chose. A secret may therefore be nothing that names a destination of
its own (a URL, a DSN, a database's connection string), and an address may carry no credentials.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from providers.outbound.addresses import MAX_URL_CHARACTERS, split_url
from schemas.errors import InvalidInputError

_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_PORT = re.compile(r"[0-9]{1,5}")
_SCHEME = re.compile(r"[a-z0-9+.-]://|jdbc:", re.IGNORECASE)
_DRIVER = re.compile(r"[A-Za-z0-9+.-]*[(/]")  # what follows the @ in user@tcp(host)/database
_CONNECTION_WORDS = re.compile(
    r"(?:^|[;\s&?'\"])(?:host|hostaddr|server|data source|addr|address|dbname|database|initial catalog|user|user id|uid"
    r"|username|password|passwd|pwd|accountkey|sharedaccesskey|sslmode)\s*=",
    re.IGNORECASE,
)
_MIN_TOKEN_CHARS = 16
_PIECES = re.compile(r"[A-Za-z0-9]+")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def holds_address(value: str) -> bool:
    """Return whether a value names its own destination: a URL of any scheme (quoted or not), a DSN or a database's
    connection string."""
    bare = value.strip().strip("'\"`<>")
    if _SCHEME.search(bare) or _CONNECTION_WORDS.search(bare):
        return True
    before, at, after = bare.rpartition("@")
    return bool(at and after) and (":" in before or "/" in before or _DRIVER.match(after) is not None)


def is_plain_address(value: str) -> bool:
    """Return whether a value is the http(s) address of a service, and nothing else."""
    try:
        split_url(value)
    except InvalidInputError:
        return False
    return True


def is_host(value: str) -> bool:
    """Return whether a value is a host, with or without a port."""
    return _HOST.fullmatch(value) is not None


def is_port(value: str) -> bool:
    return _PORT.fullmatch(value) is not None


def is_of_use(value: str) -> bool:
    """Return whether there is any place where the value may stand."""
    return not holds_address(value) or is_plain_address(value)


def has_token_in_path(url: str) -> bool:
    """Return whether a segment of a URL's path looks randomly made, as a key is, and not written by a person."""
    try:
        segments = urlsplit(url[:MAX_URL_CHARACTERS]).path.split("/")
    except ValueError:
        return False
    return any(not _UUID.fullmatch(each) and any(map(_is_random, _PIECES.findall(each))) for each in segments)


def _is_random(piece: str) -> bool:
    digits = sum(character.isdigit() for character in piece)
    return len(piece) >= _MIN_TOKEN_CHARS and 0 < digits < len(piece)
