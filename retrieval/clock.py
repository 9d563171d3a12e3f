"""The default clock, which callers may replace, and the spelling of times."""

import time
from datetime import UTC, datetime


def utc_now() -> datetime:
    return datetime.now(UTC)


def z_time(at: datetime) -> str:
    """Spell a UTC time in ISO 8601 with milliseconds and Z."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def z_time_of_ms(at_ms: int) -> str:
    """Spell milliseconds since the epoch like `z_time`."""
    return z_time(datetime.fromtimestamp(at_ms / 1e3, UTC))


def milliseconds_since(began: float) -> float:
    """Return the milliseconds since `began`, a value of `time.perf_counter`."""
    return round((time.perf_counter() - began) * 1e3, 3)
