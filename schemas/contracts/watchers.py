"""Reports about folders that watchers keep in sync."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.access.owners import Ownership

SCANNING, WATCHING, RETRYING, STOPPED = "scanning", "watching", "retrying", "stopped"
STATES = (SCANNING, WATCHING, RETRYING, STOPPED)
LOST = "lost"
"""The state of a watcher that should have reported again and did not."""
LOST_AFTER_SECONDS = 60.0
MAX_FAILURES = 20
"""The most failed files that a report names, and the most that were passed over."""
MAX_TEXT_CHARACTERS = 1_000
"""The longest sentence or path in a report."""
MAX_NAME_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that failed or was passed over; `reason` continues a sentence that begins with the path: "is hidden"."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class WatcherReport:
    """A watcher's report on itself. Times are ISO 8601 in UTC with Z.

    `instance` identifies the process and is the same in all its reports. Of the `files` in the folder, `pending` are
    not dealt with yet and `failed` are not in the collection as they are; `failures` names the first of these.
    `skipped` files and folders are not to be indexed; `passed_over` names the first of these.
    `indexed` and `deleted` count since `started_at`. `failing_since` and `reason` say why the watcher is retrying.
    `shared` says whether others may see the report.
    """

    instance: str
    state: str
    collection: str
    started_at: str
    files: int = 0
    pending: int = 0
    indexed: int = 0
    deleted: int = 0
    failed: int = 0
    failures: tuple[FailedFile, ...] = ()
    skipped: int = 0
    passed_over: tuple[FailedFile, ...] = ()
    last_change: str | None = None
    failing_since: str | None = None
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
