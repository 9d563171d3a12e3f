"""The gauges of a service: read in the background, bounded, and true; and the requests of the last hour, counted by several
processes in one file."""

import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest

from schemas.errors import UnavailableError
from schemas.settings import WrapperSettings
from schemas.settings.backup_times import BackupTimes
from schemas.storage.health import EngineHealth
from tests.support.live import PATIENCE_SECONDS, eventually
from tests.wrapper.clock import Clock
from tests.wrapper.documents import create
from wrapper.background import Looks
from wrapper.catalog.index_state import observing, reports
from wrapper.engine.keeper.state import EngineStateReader
from wrapper.observing.gauges import Gauge, of_backups
from wrapper.observing.processes import of_processes
from wrapper.observing.recent import FACTOR, FILE_NAME, MINUTES, RecentRequests
from wrapper.observing.service_gauges import ServiceGauges
from wrapper.observing.sizes import stored_bytes


@pytest.fixture
def gauges(empty_catalog, tmp_path):
    looks = Looks()
    yield ServiceGauges(looks, WrapperSettings(data_dir=tmp_path), empty_catalog, EngineStateReader(tmp_path))
    looks.close()


def shown(gauges):
    engine = EngineHealth("starting", "child", restarts=2)
    return {(each.name, *each.labels.values()): each.value for each in gauges.all(engine, catalogue_works=True)}


def test_what_hangs_keeps_nobody_waiting_and_its_age_tells(gauges):
    asked, go_on = threading.Event(), threading.Event()

    def hangs():
        asked.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return [Gauge("rag_slow", "", 1)]

    gauges.add("slow", hangs)
    assert asked.wait(PATIENCE_SECONDS)
    before = shown(gauges)
    assert ("rag_slow",) not in before
    assert before["rag_engine_restarts_total",] == 2
    eventually(lambda: shown(gauges)["rag_gauges_age_seconds", "slow"] > before["rag_gauges_age_seconds", "slow"])
    go_on.set()
    eventually(lambda: shown(gauges).get(("rag_slow",)) == 1)


def test_what_cannot_be_read_is_not_there(gauges):
    known = [Gauge("rag_known", "", 1)]

    def read():
        if not known:
            raise UnavailableError("The catalogue does not answer")
        return known

    gauges.add("known", read, every_seconds=0.01)
    eventually(lambda: ("rag_known",) in shown(gauges))
    known.clear()
    eventually(lambda: ("rag_known",) not in shown(gauges))


def test_the_catalogue_tells_of_all_collections_and_of_the_largest_in_more(empty_catalog, monkeypatch):
    monkeypatch.setattr(observing, "MOST_SHOWN", 2)
    create(empty_catalog, "first", "second", "third")
    for key, recall, fault in ((1, 0.9, ""), (3, 0.5, "broken")):
        found = {"recall_at_10": recall, "filtered_recall_at_10": recall / 2, "fault": fault}
        empty_catalog.commit(lambda transaction, key=key, found=found: reports.write(transaction, key, **found))
    with empty_catalog.read() as transaction:
        seen = observing.observe(transaction)
    assert (seen.collections, seen.documents, seen.lowest_recall, seen.faulty) == (3, 0, 0.5, 1)
    assert seen.lowest_filtered_recall == 0.25
    assert [each.name for each in seen.largest] == ["first", "second"]
    assert set(seen.reports) == {1}


def test_sizes_are_those_of_the_files(empty_catalog, tmp_path):
    data_dir = tmp_path / "data"
    (data_dir / "originals" / "ab").mkdir(parents=True)
    (data_dir / "originals" / "ab" / "file").write_bytes(b"x" * 1000)
    (data_dir / "originals" / "link").symlink_to(tmp_path)
    catalogue = tmp_path / "catalogue"
    catalogue.write_bytes(b"y" * 77)
    sizes = stored_bytes(data_dir, catalogue, empty_catalog)
    assert (sizes["originals"], sizes["catalogue"], sizes["catalogue_wal"], sizes["engine"]) == (1000, 77, 0, 0)


def test_a_process_alone_knows_itself():
    found = {each.name: each.value for each in of_processes(None, None, None) if each.labels["process"] == "worker"}
    assert found["rag_processes"] == 1
    assert found["rag_process_cpu_seconds_total"] > 0
    assert found["rag_process_resident_memory_bytes"] > 10_000_000
    assert found["rag_process_open_fds"] >= 3
    assert abs(found["rag_process_start_time_seconds"] - os.stat("/proc/self").st_ctime) < 86_400


def test_the_live_service_knows_its_processes_and_their_time_never_falls(live, session):
    def processes():
        lines = session.get(f"{live.url}/metrics").text.splitlines()
        return {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("rag_process")}

    first, second = processes(), processes()
    for kind in ("master", "worker", "keeper", "engine"):
        assert first[f'rag_processes{{process="{kind}"}}'] == (2 if kind == "worker" else 1)
        time_of = f'rag_process_cpu_seconds_total{{process="{kind}"}}'
        assert second[time_of] >= first[time_of] > 0


def test_the_age_of_a_backup_is_there_once_there_is_one():
    now = datetime(2026, 11, 25, 12, tzinfo=UTC)
    assert list(of_backups(lambda: None, None)) == []
    age, made = of_backups(lambda: now - timedelta(hours=2), None, now)
    assert (age.name, age.value) == ("rag_backup_age_seconds", 7200)
    assert made.value == now.timestamp() - 7200


@pytest.mark.parametrize(("times", "seconds"), [("30m", 1800), ("7d", 604_800), ("03:30", 86_400)])
def test_the_interval_of_a_schedule_is_there_also_without_any_backup(times, seconds):
    def unreadable():
        raise OSError(116, "Stale file handle")

    for look in (lambda: None, unreadable):
        (interval,) = of_backups(look, BackupTimes.parse(times))
        assert (interval.name, interval.value) == ("rag_backup_interval_seconds", seconds)


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


@pytest.mark.slow
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
