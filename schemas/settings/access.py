"""The settings of who may call the service and what is kept of it."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any

from environs import ValidationError, validate

from schemas.settings.environment import OneWordOf, environment, seal

OPEN, KEYS = "open", "keys"
SECRET_KEY_BYTES = 32


@dataclass(frozen=True)
class AccessSettings:
    """The settings of access. Each field is set by the variable `RAG_` plus its name in capitals."""

    access: str = ""  # open or keys; empty: open while the service listens on loopback only and has no key
    api_key: str = field(default="", repr=False)  # an administrator's key
    api_key_file: str = ""  # file that holds it
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks whose X-Forwarded-For is believed
    audit_max_mb: int = 100  # size of a file of the audit log before a new one is begun
    audit_reads: bool = False  # whether the audit log has reads too
    secret_key: tuple[str, ...] = field(default=(), repr=False)  # newest first; empty: a file in the data directory


def read_access_settings() -> AccessSettings:
    """Read the settings from this process's environment. Raises ConfigurationError naming every wrong variable."""
    env = environment()
    default = AccessSettings()
    values: dict[str, Any] = {
        "access": env.str("ACCESS", default.access, validate=OneWordOf(("", OPEN, KEYS))),
        "api_key": env.str("API_KEY", default.api_key),
        "api_key_file": env.str("API_KEY_FILE", default.api_key_file),
        "trusted_proxies": tuple(env.list("TRUSTED_PROXIES", list(default.trusted_proxies))),
        "audit_max_mb": env.int("AUDIT_MAX_MB", default.audit_max_mb, validate=validate.Range(min=1, max=100_000)),
        "audit_reads": env.bool("AUDIT_READS", default.audit_reads),
        "secret_key": _keys(env.str("SECRET_KEY", "", validate=_each_is_a_key)),
    }
    seal(env)
    values["access"] = values["access"].lower()
    return AccessSettings(**values)


def _keys(text: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in (text or "").split(",") if each.strip())


def _each_is_a_key(text: str) -> None:
    if not all(map(_is_key, _keys(text))):
        raise ValidationError("must be 32 bytes in base64, or several such keys separated by commas, newest first.")


def _is_key(text: str) -> bool:
    """Return whether a text is a key in base64, in the alphabet of URLs or in the usual one."""
    try:
        return len(base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True)) == SECRET_KEY_BYTES
    except (binascii.Error, ValueError):
        return False
