"""Keys as they are sent to services, and kept out of what comes back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schemas.errors import ConfigurationError

MIN_SECRET_CHARS = 4
"""Shorter ones keep nothing secret, and would be found in every word."""


def checked_key(api_key: str | None) -> str | None:
    """The key without white space around it; None for none. Raises ConfigurationError, which does not quote it, when
    it holds what cannot travel in a header."""
    key = (api_key or "").strip()
    # The HTTP library would quote a key that it cannot send, so it never gets to see one.
    if not key.isascii() or any(c.isspace() or not c.isprintable() for c in key):
        raise ConfigurationError(
            "The API key holds characters that no key has (line break, space, accent)",
            field="api_key",
            error_type="invalid_config",
        )
    return key or None


def redacted(value: Any, secrets: Iterable[str]) -> Any:
    """A JSON value in which no string holds one of the secrets: what a service says may quote what it was sent."""
    hidden = sorted((each for each in secrets if len(each) >= MIN_SECRET_CHARS), key=len, reverse=True)
    if isinstance(value, str):
        for secret in hidden:
            value = value.replace(secret, "***")
        return value
    if isinstance(value, list):
        return [redacted(each, hidden) for each in value]
    if isinstance(value, dict):
        return {redacted(name, hidden): redacted(each, hidden) for name, each in value.items()}
    return value
