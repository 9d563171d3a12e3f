"""Bounds the lines of refused requests, which cost their sender nothing: those beyond the bound are counted, and one
line a minute stands for them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from schemas.storage.audit import AuditEvent

LINES = 60
"""The most lines of refused requests in a minute and process: of each caller who is known, and of all others
together."""
MINUTE_SECONDS = 60.0

Who = tuple[str | None, str | None]
"""The ids of a key and of a user."""
UNKNOWN: Who = (None, None)
"""Stands for all callers whom nobody knows."""


class Refusals:
    """The refused requests of one process. Threads may share it. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._began = clock()
        self._lines: Counter[Who] = Counter()
        self._held: dict[Who, AuditEvent] = {}

    def has_line(self, who: Who) -> bool:
        """Count a line of a caller, and return whether it is within the bound."""
        with self._mutex:
            self._lines[who] += 1
            return self._lines[who] <= LINES

    def hold(self, who: Who, event: AuditEvent) -> None:
        """Keep count of an event that is not written now."""
        with self._mutex:
            held = self._held.get(who)
            before = 0 if held is None else held.repeated or 0
            self._held[who] = replace(event, repeated=before + (event.repeated or 1))

    def told(self, *, at_once: bool = False) -> list[tuple[Who, AuditEvent]]:
        """Return, when the minute is over, for each caller the event that stands for those held back, and begin the
        next minute."""
        with self._mutex:
            now = self._clock()
            if not at_once and now - self._began < MINUTE_SECONDS:
                return []
            self._began = now
            self._lines.clear()
            held, self._held = self._held, {}
            return list(held.items())
