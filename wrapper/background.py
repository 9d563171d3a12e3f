"""The work that a process does every few seconds in the background, so that no request waits for it.

It checks services that may not answer, gathers figures for the metrics and gives memory back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

T = TypeVar("T")
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """The result of a look, and how long ago it was taken. `is_late` says that the next one should have come back."""

    found: T
    age_seconds: float
    is_late: bool


class Look(Generic[T]):
    """A task that a thread of its own runs at the start and again every `every_seconds`, keeping the last result.

    Because each look has its own thread, one that hangs ages no other. `take` should come back within `limit_seconds`;
    when it does not, `last` says so. `found` is the result before the first look has come back.
    """

    def __init__(
        self,
        name: str,
        take: Callable[[], T],
        found: T,
        *,
        every_seconds: float,
        limit_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._take = take
        self._every_seconds = every_seconds
        self._limit_seconds = limit_seconds
        self._clock = clock
        self._last = (found, clock())
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"look-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def last(self) -> Seen[T]:
        """Return the last result, without waiting."""
        found, seen_at = self._last
        age_seconds = max(0.0, self._clock() - seen_at)
        return Seen(found, age_seconds, age_seconds > self._every_seconds + self._limit_seconds)

    def end(self) -> None:
        """Take no further look."""
        self._ending.set()

    def join(self) -> None:
        """Wait for the look under way; one that hangs is left to itself."""
        self._thread.join(self._limit_seconds)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._last = (self._take(), self._clock())
            except Exception:  # the last answer stays, and grows old
                if not self._ending.is_set():
                    log.exception("a look in the background failed", look=self._name)
            self._ending.wait(self._every_seconds)


class Looks:
    """All looks of one process; they end together."""

    def __init__(self) -> None:
        self._taken: list[Look[Any]] = []

    def add(self, name: str, take: Callable[[], T], found: T, *, every_seconds: float, limit_seconds: float) -> Look[T]:
        """Begin a look and return it; the arguments are those of `Look`."""
        look = Look(name, take, found, every_seconds=every_seconds, limit_seconds=limit_seconds)
        self._taken.append(look)
        look.start()
        return look

    def close(self) -> None:
        for look in self._taken:
            look.end()
        for look in self._taken:
            look.join()
