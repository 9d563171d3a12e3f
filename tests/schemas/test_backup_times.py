"""When backups are due."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from schemas.settings.backup_times import BackupTimes

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "hours"), [("24h", 24), ("24", 24), ("30m", 0.5), ("7d", 168), ("1w", 168), ("3600s", 1)]
)
def test_a_span_counts_from_the_last_one(text, hours):
    assert BackupTimes.parse(text).due_at(NOON, NOON) == NOON + timedelta(hours=hours)


@pytest.mark.parametrize(
    ("last", "due"),
    [
        (NOON, datetime(2026, 11, 26, 3, 30, tzinfo=UTC)),
        (NOON - timedelta(hours=10), datetime(2026, 11, 25, 3, 30, tzinfo=UTC)),
        (datetime(2026, 11, 25, 3, 30, tzinfo=UTC), datetime(2026, 11, 26, 3, 30, tzinfo=UTC)),
        (datetime(2026, 11, 25, 5, 0, tzinfo=timezone(timedelta(hours=2))), datetime(2026, 11, 25, 3, 30, tzinfo=UTC)),
    ],
)
def test_a_time_of_the_day_is_the_next_one_after_the_last(last, due):
    assert BackupTimes.parse("03:30").due_at(last, NOON) == due


def test_the_first_one_is_due_at_once():
    for text in ("24h", "03:30"):
        assert BackupTimes.parse(text).due_at(None, NOON) == NOON


@pytest.mark.parametrize("text", ["", "0h", "soon", "24:00", "3:30", "-1h", "1.5h", "03:60", "9999999h"])
def test_other_texts_say_no_time(text):
    with pytest.raises(ValueError, match="must be a span"):
        BackupTimes.parse(text)
