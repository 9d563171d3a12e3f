"""The time that is written beside what is stored; callers may bring another."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    return datetime.now(UTC)
