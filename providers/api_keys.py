"""Keys as they are sent to services."""

from __future__ import annotations

from schemas.errors import ConfigurationError


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
