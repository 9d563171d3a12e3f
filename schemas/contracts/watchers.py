"""Reports about folders that watchers keep in sync."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.access.owners import Ownership

STATES = WATCHING, RETRYING, STOPPED = "watching", "retrying", "stopped"
LOST = "lost"
"""The state of a watcher that should have reported again and did not."""
LOST_AFTER_SECONDS = 60.0
MAX_FAILURES = 20
"""The most failed files that a report names."""
MAX_TEXT_CHARACTERS = 1_000
"""The longest sentence or path in a report."""
MAX_NAME_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that failed; `reason` continues a sentence that begins with the path: "is encrypted"."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class WatcherReport:
    """A watcher's report on itself and its last round. Times are ISO 8601 in UTC with Z.

    `instance` identifies the process and is the same in all its reports. Of the `files` in the folder, `stored` are in
    the collection as they are and `failed` are not; `failures` names the first of these. `at` is when the last round
    ended, and `next` when all is compared again, or is tried again for a `reason`. `shared` says whether others may see
    the report.
    """

    instance: str
    state: str
    collection: str
    files: int = 0
    stored: int = 0
    failed: int = 0
    failures: tuple[FailedFile, ...] = ()
    at: str | None = None
    next: str | None = None
    reason: str | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class KnownWatcher:
    """A watcher's last report; `state` is the report's, or `lost`."""

    name: str
    of: Ownership
    state: str
    reported_at: str
    report: WatcherReport


def is_watcher_name(name: str) -> bool:
    """Return whether a watcher may have that name, which is shown and is part of a path."""
    return 0 < len(name) <= MAX_NAME_CHARACTERS and name.isprintable() and "/" not in name and name not in (".", "..")
