"""The requests of the last hour, counted by several processes in one file."""

import os
import subprocess
import sys

import pytest

from tests.wrapper.clock import Clock
from wrapper.observing.recent import FACTOR, FILE_NAME, MINUTES, RecentRequests

OTHER = """
import sys
from pathlib import Path
from wrapper.observing.recent import RecentRequests
recent = RecentRequests(Path(sys.argv[1]), 3, clock=lambda: 6_000.0)
recent.count("read", 0.001, failed=True)
recent.count("write", 0.001, failed=False)
print("counted", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def clock():
    return Clock(6_000.0)


@pytest.fixture
def recent(tmp_path, clock):
    opened = RecentRequests(tmp_path, 3, clock)
    yield opened
    opened.close()


def test_minutes_have_their_requests_errors_and_percentiles(recent, clock):
    for milliseconds in range(1, 101):
        recent.count("read", milliseconds / 1e3, failed=milliseconds > 98)
    clock.now += 60
    recent.count("embedding", 0.25, failed=False)
    *empty, first, last = recent.minutes()
    assert len(empty) == MINUTES - 2
    assert all((each.total.requests, each.total.p50_ms, each.by_kind) == (0, None, {}) for each in empty)
    assert (first.begins_at, first.total.requests, first.total.errors) == (6_000, 100, 2)
    assert 50 / FACTOR <= first.total.p50_ms <= 50 * FACTOR
    assert 95 / FACTOR <= first.total.p95_ms <= 95 * FACTOR
    assert first.by_kind == {"read": first.total}
    assert (last.begins_at, set(last.by_kind), last.total.requests) == (6_060, {"embedding"}, 1)


def test_a_minute_is_forgotten_after_an_hour(recent, clock):
    recent.count("read", 0.001, failed=False)
    clock.now += 60 * (MINUTES - 1)
    assert recent.minutes()[0].total.requests == 1
    clock.now += 60
    assert sum(each.total.requests for each in recent.minutes()) == 0
    recent.count("read", 0.001, failed=False)
    assert [each.total.requests for each in recent.minutes()] == [0] * (MINUTES - 1) + [1]


def test_extreme_durations_are_counted(recent):
    for seconds in (0.0, 1e-9, 3_600.0, 1e9):
        recent.count("other", seconds, failed=False)
    assert recent.minutes()[-1].total.requests == 4


def test_processes_count_together_and_what_one_counted_stays_when_it_ends(recent, tmp_path):
    recent.count("read", 0.001, failed=False)
    for rounds in (1, 2, 3):
        others = [
            subprocess.Popen(
                [sys.executable, "-c", OTHER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(2)
        ]
        for each in others:
            assert each.stdout.readline() == b"counted\n"
        now = recent.minutes()[-1]
        assert (now.total.requests, now.total.errors) == (1 + 4 * rounds, 2 * rounds)
        for each in others:
            each.communicate()
    assert recent.minutes()[-1].by_kind["write"].requests == 6


def test_a_process_without_a_place_or_a_disk_counts_alone(recent, tmp_path, clock):
    file = tmp_path / FILE_NAME
    assert file.stat().st_blocks * 512 >= file.stat().st_size  # the room is set aside: no write can fail
    for folder in (tmp_path / "none", None):
        alone = RecentRequests(folder, 3, clock)
        alone.count("read", 0.001, failed=False)
        assert alone.minutes()[-1].total.requests == 1
        alone.close()
    assert os.listdir(tmp_path) == [FILE_NAME]
    assert recent.minutes()[-1].total.requests == 0
