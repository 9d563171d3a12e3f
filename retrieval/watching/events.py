"""File events, gathered into bursts: they tell when to look at a folder."""

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
"""Changes that never end are reported after this many times the quiet that would end a burst."""
_STEP_MS = 50
_usual = DefaultFilter()


def is_ignored(path: str) -> bool:
    """Return whether a path is one nobody would index: .git, node_modules, what editors leave behind.

    `path` is relative to the folder, whose own path does not count.
    """
    return not _usual(Change.modified, path)


def file_events(folder: Folder, folders: set[str], stop: threading.Event) -> Changes:
    """Yield the paths that changed in `folders` below a folder, every `TICK_SECONDS`.

    The first set is yielded as soon as the system listens; the generator ends when `stop` is set. Raises
    UnavailableError when the system cannot report changes.

    Folders are watched one by one, because the library would also enter those that are passed over, and follow
    symbolic links out. When there are more changes at once than the system keeps, it drops them silently.
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
    """Yield the same paths, held back until nothing has changed for `quiet_seconds`."""
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
