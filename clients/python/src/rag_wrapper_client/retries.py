"""How often, and after how long, a request is sent again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

ASKING_TO_WAIT = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Retry:
    """Repeats a request after a lost connection, and after 429 and 503 once the `Retry-After` has passed.

    Only what changes nothing when it is done twice is repeated: reads, and writes that carry an `Idempotency-Key`.
    A service that wants to be left alone for longer than `longest_wait_seconds` is not asked again.
    """

    attempts: int = 4
    """How often a request is sent altogether; 1 never repeats."""
    first_wait_seconds: float = 0.25
    """The wait after the first lost connection; it doubles with each."""
    longest_wait_seconds: float = 60.0
    clock: Callable[[], float] = time.time
    """Seconds since 1970: a `Retry-After` may be a date."""
    jitter: Callable[[], float] = random.SystemRandom().random
    """A number from 0 to 1 that keeps many clients from coming back at the same moment."""

    def after_loss_seconds(self, attempt: int) -> float | None:
        """Return how long to wait after the loss of this attempt, counted from 1; None gives up."""
        if attempt >= self.attempts:
            return None
        longest = min(self.longest_wait_seconds, self.first_wait_seconds * 2.0 ** (attempt - 1))
        return longest * (0.5 + self.jitter() / 2)

    def after_refusal_seconds(self, attempt: int, status: int, headers: Mapping[str, str]) -> float | None:
        """Return how long to wait after this answer; None takes it as final."""
        if status not in ASKING_TO_WAIT or attempt >= self.attempts:
            return None
        wanted = self.wanted_seconds(headers)
        if wanted is None or wanted > self.longest_wait_seconds:
            return None
        return min(self.longest_wait_seconds, wanted + self.jitter() * self.first_wait_seconds)

    def wanted_seconds(self, headers: Mapping[str, str]) -> float | None:
        """Return the seconds that a `Retry-After` asks for, given in seconds or as a date; None without one."""
        text = headers.get("Retry-After", "").strip()
        if text.isdecimal():
            return float(text)
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - self.clock())
        except (TypeError, ValueError):
            return None
