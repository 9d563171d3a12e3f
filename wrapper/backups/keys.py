"""The key under which backups are encrypted: that of the settings, or of a file."""

from __future__ import annotations

import base64
import binascii
import stat
from pathlib import Path

import structlog

from schemas.errors import ConfigurationError
from schemas.settings import WrapperSettings
from wrapper.backups.sealing import KEY_BYTES

log = structlog.get_logger(__name__)

KEY, FILE = "RAG_BACKUP_KEY", "RAG_BACKUP_KEY_FILE"


def backup_key(settings: WrapperSettings) -> bytes | None:
    """Return the key of the settings, None when there is none.

    Raises ConfigurationError when there are two, or it is none.
    """
    if settings.backup_key and settings.backup_key_file:
        raise ConfigurationError(f"{KEY} and {FILE} are both set: one is enough", field=FILE)
    if settings.backup_key_file:
        return key_of_file(Path(settings.backup_key_file), FILE)
    return read_key(settings.backup_key, KEY) if settings.backup_key else None


def key_of_file(path: Path, named: str) -> bytes:
    """Return the key in a file that is `named` so. Raises ConfigurationError when there is none."""
    try:
        text = path.read_text()
        for sentence in key_warnings(path, named):
            log.warning(sentence)
    except (OSError, ValueError):  # ValueError: no text, or no path
        raise ConfigurationError(f"{named}: the file cannot be read", field=named) from None
    return read_key(text, named)


def key_warnings(path: Path | str, named: str) -> list[str]:
    """Return a sentence when every user of the machine may read the file of a key that is `named` so. A group may: that
    is how containers get files."""
    try:
        is_open = bool(path) and Path(path).stat().st_mode & stat.S_IRWXO
    except (OSError, ValueError):
        return []
    advice = "allow only its owner to read it (chmod 600)"
    return [f"{named}: the key of backups is open to every user of this machine: {advice}"] if is_open else []


def read_key(text: str, named: str) -> bytes:
    try:
        key = base64.b64decode(text.strip().translate(str.maketrans("-_", "+/")), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        sentence = (
            f"{named} must be {KEY_BYTES} random bytes in base64, as 'openssl rand -base64 {KEY_BYTES}' prints them"
        )
        raise ConfigurationError(sentence, field=named)
    return key
