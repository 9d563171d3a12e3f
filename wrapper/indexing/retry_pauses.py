"""Pauses that grow: a key that fails is left alone for a while, each time for twice as long, up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Rests(Generic[K]):
    """The pauses of keys that failed; for one thread."""

    def __init__(self, first_seconds: float, longest_seconds: float, clock: Callable[[], float]) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._clock = clock
        # For each key: when its pause ends, and how long the last pause was.
        self._rests: dict[K, tuple[float, float]] = {}

    def begin(self, key: K, at_least_seconds: float = 0.0) -> float:
        """Let a key rest that failed, twice as long as the last time. Return the seconds."""
        _, last = self._rests.get(key, (0.0, self._first_seconds / 2))
        pause = min(2 * last, self._longest_seconds)
        lasting = max(pause, at_least_seconds)
        self._rests[key] = (self._clock() + lasting, pause)
        return lasting

    def is_over(self, key: K) -> bool:
        return key not in self._rests or self._clock() >= self._rests[key][0]

    def forget(self, key: K) -> None:
        """Forget a key that succeeded or is gone: its next pause is a short one."""
        self._rests.pop(key, None)

    def end_all(self) -> None:
        """End all pauses, so that everything may be tried at once. The next pauses grow all the same."""
        self._rests = {key: (float("-inf"), last) for key, (_, last) in self._rests.items()}

    def clear(self) -> None:
        self._rests.clear()

    def __bool__(self) -> bool:
        """Return whether any key has failed and not succeeded since."""
        return bool(self._rests)

    def under_way(self) -> list[K]:
        """Return the keys that rest now."""
        now = self._clock()
        return [key for key, (until, _) in self._rests.items() if until > now]

    def next_end(self) -> float | None:
        """Return when the first of the pauses under way ends, None when there is none."""
        now = self._clock()
        return min((until for until, _ in self._rests.values() if until > now), default=None)
