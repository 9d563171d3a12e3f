"""The key that a request carries, in any of the headers that clients of other services know."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable

from schemas.errors import MalformedAuthorizationError, UnauthorizedError

KEY_HEADERS = ("X-API-Key", "api-key", "X-Chroma-Token")
"""The headers whose whole value is a key. `Authorization` has a scheme before it."""
MAX_CHARACTERS = 16_384
"""The longest key or token that is looked at."""


def presented_key(header: Callable[[str], str]) -> str | None:
    """Return the key of a request, None when it carries none; `header` returns the value of a header, empty when it is
    not there.

    `Authorization` may be `Bearer` with the key, or `Basic` with the key as the password. Raises UnauthorizedError when
    two headers, or two headers of one name, carry different keys, and for another scheme.
    """
    found = dict.fromkeys(_keys(header))
    if len(found) > 1:
        raise UnauthorizedError(
            "The request carries different keys, and which one counts is unclear", code="key_ambiguous"
        )
    return next(iter(found), None)


def _keys(header: Callable[[str], str]) -> Iterable[str]:
    for name in KEY_HEADERS:
        # Headers of one name arrive joined by commas, which no key contains.
        for value in header(name).split(","):
            if key := value.strip():
                yield _checked(key)
    # The name of a Basic user and its password may contain a comma, but base64 does not.
    for value in header("Authorization").split(","):
        if said := value.strip():
            yield _checked(_from_authorization(said))


def _from_authorization(said: str) -> str:
    scheme, _, value = said.partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value:
        return value
    if scheme.lower() == "basic" and value:
        try:
            _, separator, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            separator, password = "", ""
        if separator and password:
            return password
    raise MalformedAuthorizationError(
        "Authorization must be 'Bearer' with a key, or 'Basic' with the key as the password"
    )


def _checked(key: str) -> str:
    if len(key) > MAX_CHARACTERS:
        raise UnauthorizedError("The key is longer than any key can be")
    return key
