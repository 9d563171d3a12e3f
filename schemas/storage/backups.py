"""What the service tells of backups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class BackupState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was made, is being made, or failed; then `message` says why.

    `verified` says that it was read back and tried after it was written. What is not known is None: of one that is
    being made, and of a file that is damaged.
    """

    id: str
    state: BackupState
    created_at: datetime | None = None
    bytes: int = 0
    encrypted: bool | None = None
    verified: bool = False
    release: str | None = None
    schema_version: int | None = None
    counts: Mapping[str, int] | None = None
    reason: str | None = None
    message: str | None = None
