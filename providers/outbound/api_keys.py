"""API keys, checked before they are sent to services."""

from __future__ import annotations

from schemas.errors import ConfigurationError


def checked_key(api_key: str | None) -> str | None:
    """Return the key without surrounding white space, None when it is empty. Raises ConfigurationError, which does not
    quote the key, when it holds characters that cannot travel in a header."""
    key = (api_key or "").strip()
    # The HTTP library would quote a key that it cannot send, so it never gets to see one.
    if not key.isascii() or any(c.isspace() or not c.isprintable() for c in key):
        raise ConfigurationError(
            "The API key holds characters that no key has (line break, space, accent)",
            field="api_key",
            error_type="invalid_config",
        )
    return key or None
