"""Pauses between attempts."""

from __future__ import annotations

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 30.0


class Pauses:
    """Pauses that double from one attempt to the next, up to the longest, until `reset`."""

    def __init__(self, first_seconds: float = FIRST_SECONDS, longest_seconds: float = LONGEST_SECONDS) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._failures = 0

    def next_seconds(self) -> float:
        seconds = min(self._first_seconds * 2**self._failures, self._longest_seconds)
        if seconds < self._longest_seconds:
            self._failures += 1
        return seconds

    def reset(self) -> None:
        self._failures = 0
