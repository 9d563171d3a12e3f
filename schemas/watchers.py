"""What is told of a folder that is kept in sync, and who tells it."""

from __future__ import annotations

from dataclasses import dataclass

SCANNING, WATCHING, RETRYING, STOPPED = "scanning", "watching", "retrying", "stopped"
STATES = (SCANNING, WATCHING, RETRYING, STOPPED)
LOST = "lost"
"""State of a watcher that should have reported again and did not."""
LOST_AFTER_SECONDS = 60.0
MAX_FAILURES = 20
"""Failed files that a report names."""
MAX_TEXT_CHARACTERS = 1_000
"""Of a sentence or a path in a report."""
MAX_NAME_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class FailedFile:
    """`reason` goes on after the path: "is not UTF-8: …"."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class WatcherReport:
    """A watcher as it sees itself. Times are ISO 8601 in UTC with Z.

    `instance` is the process, the same in all of its reports. `files` are in the folder, `pending` of them not dealt
    with yet, `failed` not in the collection as they are, the first of them in `failures`; `indexed` and `deleted` count
    since `started_at`. `failing_since` and `reason` say why it is retrying.
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
    last_change: str | None = None
    failing_since: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class KnownWatcher:
    """A watcher's last report. `state` is the report's, or `lost`."""

    name: str
    state: str
    reported_at: str
    report: WatcherReport


def is_watcher_name(name: str) -> bool:
    """Whether a watcher may be called that: part of a path, and readable."""
    return 0 < len(name) <= MAX_NAME_CHARACTERS and name.isprintable() and "/" not in name and name not in (".", "..")
