"""The key of the settings, and what it decides: whether a service may be reached by other machines."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

from schemas.access.credentials_in_text import Cleaner, cleaner
from schemas.errors import ConfigurationError
from schemas.settings import KEYS, OPEN, AccessSettings

MIN_BOOTSTRAP_CHARACTERS = 16
KEY, FILE = "RAG_API_KEY", "RAG_API_KEY_FILE"


def configured_key(settings: AccessSettings) -> tuple[str, str]:
    """Return (the key of the settings, empty when there is none; the variable it comes from).

    Raises ConfigurationError when there are two, or when the file cannot be read or holds none.
    """
    if not settings.api_key_file:
        return settings.api_key, KEY
    if settings.api_key:
        raise ConfigurationError(f"{KEY} and {FILE} are both set: one is enough")
    try:
        key = Path(settings.api_key_file).read_text().strip()
    except (OSError, ValueError):  # ValueError: no text, or no path
        raise ConfigurationError(f"{FILE}: the file cannot be read", field=FILE) from None
    if not key:
        raise ConfigurationError(f"{FILE}: the file is empty", field=FILE)
    return key, FILE


def bootstrap_key(settings: AccessSettings) -> str:
    """Return the administrator's key of the settings, empty when there is none.

    Raises ConfigurationError as `configured_key` does, and when the key is too short to be kept secret.
    """
    key, variable = configured_key(settings)
    if key and (
        len(key) < MIN_BOOTSTRAP_CHARACTERS or not key.isascii() or not key.isprintable() or set(key) & set(", ")
    ):
        raise ConfigurationError(
            f"{variable} must be {MIN_BOOTSTRAP_CHARACTERS} or more printable ASCII characters, without blanks or "
            "commas",
            field=variable,
        )
    return key


def settings_cleaner(settings: AccessSettings) -> Cleaner:
    """Return what cuts the key of the settings out of a text, and all that `without_credentials` does."""
    try:
        return cleaner(configured_key(settings)[0])
    except ConfigurationError:  # where there is none to be read, nobody can have sent it
        return cleaner("")


def relies_on_keys(settings: AccessSettings, *, has_users: bool) -> bool:
    """Return whether only stored keys let anybody in once there is one; `has_users` says that an identity provider lets
    in others."""
    return settings.access != OPEN and not (settings.api_key or settings.api_key_file or has_users)


def is_loopback(host: str) -> bool:
    """Return whether a service that listens at `host` can be reached from its own machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_door(settings: AccessSettings, host: str, has_keys: Callable[[], bool]) -> None:
    """Raise ConfigurationError when the service would be open to other machines without anybody having said so."""
    if settings.access or is_loopback(host) or bootstrap_key(settings) or has_keys():
        return
    raise ConfigurationError(
        f"RAG_HOST: at {host} other machines can reach this service, and there is no API key. Make one with "
        f"'rag-wrapper keys create admin --scope admin' on this data directory, or set {KEY} "
        f"(RAG_ACCESS={OPEN} lets everybody in, RAG_ACCESS={KEYS} nobody until there is a key)",
        field="RAG_HOST",
    )
