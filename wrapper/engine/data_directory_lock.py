"""The lock of a data directory: one service at a time may use it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schemas.errors import ConfigurationError

LOCK_FILE = "service.lock"


@dataclass(frozen=True, slots=True)
class DataDirectoryLock:
    """The held lock of a data directory.

    Processes forked from the owner hold it too, programs they start do not. The directory is free again when the last
    of these processes has released the lock or is gone, however it ended.
    """

    path: Path
    descriptor: int

    def release(self) -> None:
        """Give up this process's share.

        Closing, not unlocking: unlocking would take the lock from forked processes too.
        """
        os.close(self.descriptor)


def acquire(
    data_dir: Path, *, description: Mapping[str, Any], now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> DataDirectoryLock:
    """Acquire `data_dir`, which is made when missing.

    Raises ConfigurationError with one sentence that names the owner when somebody else has it. `description`
    (`command`, `address`, `certificate`) is written into the lock file beside `pid` and `started_at`.
    """
    path = data_dir / LOCK_FILE
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as exc:
        raise unusable(data_dir, exc) from exc
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        error = _in_use(data_dir, descriptor)
        os.close(descriptor)
        raise error from exc
    owner = {"pid": os.getpid(), "started_at": now().isoformat(timespec="seconds"), **description}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(owner).encode(), 0)
    return DataDirectoryLock(path, descriptor)


def check_free(data_dir: Path) -> None:
    """Raise ConfigurationError, as `acquire` does, when somebody owns the directory now."""
    try:
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(data_dir, descriptor) from None
    finally:
        os.close(descriptor)


def unusable(data_dir: Path, error: OSError) -> ConfigurationError:
    """Return the error for a directory that cannot be made or written to."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return ConfigurationError(f"RAG_DATA_DIR: {data_dir} cannot be written to: {reason}", field="RAG_DATA_DIR")


def serving_address(data_dir: Path) -> str | None:
    """Return the address of the service that owns `data_dir`, None when nobody owns it or the owner serves nothing."""
    return _said_by_owner(data_dir, "address")


def serving_certificate(data_dir: Path) -> str | None:
    """Return the file of that service's certificate, None when it speaks no TLS."""
    return _said_by_owner(data_dir, "certificate")


def _said_by_owner(data_dir: Path, name: str) -> str | None:
    try:
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = _said(descriptor).get(name)
        return text if isinstance(text, str) else None
    finally:
        os.close(descriptor)
    return None


def _in_use(data_dir: Path, descriptor: int) -> ConfigurationError:
    sentence = f"The data directory {data_dir} is in use by {_holder(descriptor)}"
    return ConfigurationError(sentence, field="RAG_DATA_DIR")


def _said(descriptor: int) -> dict[str, Any]:
    """Return what the owner wrote into the lock file, an empty dictionary before it has."""
    try:
        said = json.loads(os.pread(descriptor, 65536, 0))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _holder(descriptor: int) -> str:
    owner = _said(descriptor)
    if not {"pid", "started_at"} <= owner.keys():
        return "another process"
    sentence = f"process {owner['pid']} since {owner['started_at']}"
    return f"{sentence}, serving {owner['address']}" if owner.get("address") else sentence
