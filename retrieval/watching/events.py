"""When to look at a folder: bursts of file events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from watchfiles import Change, DefaultFilter, watch

from retrieval.watching.folder import Folder
from retrieval.watching.watcher import Changes
from schemas.errors import UnavailableError

TICK_SECONDS = 0.2
LONGEST_BURST = 10
"""Changes that do not end are told of after this many times the quiet that ends a burst."""
_STEP_MS = 50
_usual = DefaultFilter()


def is_ignored(path: str) -> bool:
    """What nobody would index: .git, node_modules, what editors leave. `path` is below the folder, whose own place may
    be called anything."""
    return not _usual(Change.modified, path)


def file_events(folder: Folder, folders: set[str], stop: threading.Event) -> Changes:
    """Paths that changed in `folders` below a folder, every `TICK_SECONDS`, and once as soon as changes are listened
    for; ends when `stop` is set. Raises UnavailableError when they cannot be heard of.

    Folders are named one by one: the library would go on into those that are passed over, and out through symbolic
    links. More changes at once than the system keeps are lost without a word.
    """

    def below(path: str) -> str:
        return Path(path).relative_to(folder.root).as_posix()

    def matters(change: Change, path: str) -> bool:
        return path == str(folder.root) or not folder.is_passed_over(below(path))

    tick_ms = round(TICK_SECONDS * 1e3)
    try:
        for changes in watch(
            *(folder.root / each for each in sorted(folders)),
            recursive=False,
            watch_filter=matters,
            debounce=tick_ms,
            step=_STEP_MS,
            stop_event=stop,
            rust_timeout=tick_ms,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        ):
            yield {below(path) for _, path in changes}
    except (OSError, RuntimeError) as error:
        raise UnavailableError(f"Changes of {folder.root} cannot be heard of: {error}") from error


def settled(changes: Changes, *, quiet_seconds: float, seconds: Callable[[], float] = time.monotonic) -> Changes:
    """The same paths, held back until nothing has changed for `quiet_seconds`."""
    held: set[str] = set()
    began = last = 0.0
    with closing(changes):
        for paths in changes:
            now = seconds()
            if paths:
                began, last = began if held else now, now
                held |= paths
            if held and (now - last >= quiet_seconds or now - began >= LONGEST_BURST * quiet_seconds):
                yield held
                held = set()
            else:
                yield set()
