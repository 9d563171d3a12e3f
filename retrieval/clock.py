"""The time that is written beside what is stored, which callers may bring another for, and how times are told."""

import time
from datetime import UTC, datetime


def utc_now() -> datetime:
    return datetime.now(UTC)


def z_time(at: datetime) -> str:
    """ISO 8601 with milliseconds and Z; `at` is in UTC."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds_since(began: float) -> float:
    """`began` by `time.perf_counter`."""
    return round((time.perf_counter() - began) * 1e3, 3)
