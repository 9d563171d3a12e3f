"""When backups are made: every so often, or every day at a time of UTC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Self

from environs import ValidationError

from schemas.access.time_spans import UNIT_SECONDS

_SPAN = re.compile(r"([0-9]{1,6})([smhdw]?)")
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
FORM = "must be a span like 30m, 24h or 7d (a number alone is hours), or a time of the day in UTC like 03:30."


@dataclass(frozen=True, slots=True)
class BackupTimes:
    """Every `every`, or daily at `at`."""

    every: timedelta | None = None
    at: time | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what somebody wrote. Raises ValueError."""
        if found := _TIME.fullmatch(text.strip()):
            return cls(at=time(int(found[1]), int(found[2]), tzinfo=UTC))
        span = _SPAN.fullmatch(text.strip())
        if span is None or int(span[1]) == 0:
            raise ValueError(FORM)
        return cls(every=timedelta(seconds=int(span[1]) * UNIT_SECONDS[span[2] or "h"]))

    @property
    def interval_seconds(self) -> float:
        return (self.every or timedelta(days=1)).total_seconds()

    def due_at(self, last: datetime | None, now: datetime) -> datetime:
        """Return when the next one is due after the last one; at once where there was none."""
        if last is None:
            return now
        if self.every is not None:
            return last + self.every
        assert self.at is not None
        due = datetime.combine(last.astimezone(UTC).date(), self.at)
        return due if due > last else due + timedelta(days=1)


def are_times(text: str) -> None:
    """Raise ValidationError for a setting that says no times; empty says never."""
    try:
        if text:
            BackupTimes.parse(text)
    except ValueError:
        raise ValidationError(FORM) from None
