"""Files that clients keep here, whether or not they are documents of a collection."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.access.owners import OPEN
from schemas.errors import NotFoundError

PREFIX = "file-"
"""What the ids of files begin with, before 32 hexadecimal digits."""
PURPOSES = ("assistants", "batch", "fine-tune", "vision", "user_data")


class KeptFileNotFoundError(NotFoundError):
    code = "kept_file_not_found"

    def __init__(self, file_id: str) -> None:
        super().__init__(f"File '{file_id[:100]}' not found", id=file_id[:100])


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file, whose bytes have this SHA-256; the fields are columns of its row. Times are milliseconds since the epoch;
    without `expires_at_ms` it stays. It is its owner's alone."""

    id: str
    name: str
    purpose: str
    media_type: str
    size_bytes: int
    sha256: str
    created_at_ms: int
    expires_at_ms: int | None = None
    owner: str = OPEN
