"""Reads the audit log from its newest line back, a piece at a time, whoever writes to it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path

from schemas.errors import UnavailableError
from schemas.storage.audit import AuditEntry, AuditQuery
from wrapper.audit.file_names import files_in
from wrapper.audit.lines import MAX_LINE_BYTES, from_line

PIECE_BYTES = 1 << 16
SET_BACK = timedelta(hours=1)
"""How far a clock may have been set back between two lines that are both found."""
UNREADABLE = b"\0"
"""Stands for what is too long to be a line."""


def newest_first(
    folder: Path, query: AuditQuery, *, skip: Callable[[], None], look: Callable[[], bool] = lambda: True
) -> Iterator[AuditEntry]:
    """Yield the entries that fit, the newest first; `skip` is called for each line that is torn.

    It ends early when `look`, which is called before each line, returns False. Raises UnavailableError when a file
    cannot be read.
    """
    since = query.since
    newer = None
    for name in reversed(files_in(folder)):
        if since is not None and newer is not None and newer.day < since.date():
            return  # the newer file was begun before that, so this one was finished
        newer = name
        for line in _lines_backwards(folder / str(name)):
            if not look():
                return
            try:
                entry = from_line(line)
            except ValueError:
                skip()
                continue
            if since is not None and entry.time < since - SET_BACK:
                return
            if query.fits(entry):
                yield entry


def _lines_backwards(path: Path) -> Iterator[bytes]:
    try:
        file = path.open("rb")
    except FileNotFoundError:  # whoever keeps the log has taken it away
        return
    except OSError as error:
        raise UnavailableError(f"The audit log cannot be read: {error.strerror}") from error
    with file:
        end, rest = file.seek(0, 2), b""
        while end:
            start = max(0, end - PIECE_BYTES)
            file.seek(start)
            rest, *lines = (file.read(end - start) + rest).split(b"\n")
            end = start
            if len(rest) > MAX_LINE_BYTES:
                rest = UNREADABLE
            yield from filter(None, reversed(lines))
        if rest:
            yield rest


@dataclass(frozen=True, slots=True)
class AuditPage:
    """The newest entries that fit. `skipped` lines were torn; one that is not `whole` took too long to read."""

    entries: list[AuditEntry]
    skipped: int
    whole: bool


def newest_page(
    folder: Path,
    query: AuditQuery,
    limit: int,
    *,
    limit_seconds: float = float("inf"),
    clock: Callable[[], float] = time.monotonic,
) -> AuditPage:
    """Return at most `limit` entries, and those found until then when that takes longer than `limit_seconds`.

    Raises UnavailableError when a file cannot be read.
    """
    until = clock() + limit_seconds
    skipped, whole = 0, True

    def skip() -> None:
        nonlocal skipped
        skipped += 1

    def look() -> bool:
        nonlocal whole
        whole = clock() < until
        return whole

    found = list(islice(newest_first(folder, query, skip=skip, look=look), limit))
    return AuditPage(found, skipped, whole)
