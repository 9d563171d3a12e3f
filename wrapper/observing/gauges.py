"""The gauges of `/metrics`: the state of the service and of each collection.

They are apart from `wrapper/observing/metrics.py` because prometheus-client decides at import whether there are several
processes, and gunicorn's master says so only after it has imported this module.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from schemas.records import Collection
from schemas.settings.backup_times import BackupTimes
from schemas.storage.health import EngineHealth
from schemas.storage.index_reports import IndexReport
from wrapper.catalog.index_state.observing import Observed

log = structlog.get_logger(__name__)

NO_LABELS: Mapping[str, str] = {}


class Gauge(NamedTuple):
    """A number as it is now. One whose name ends in `_total` only grows, as counters do."""

    name: str
    meaning: str
    value: float
    labels: Mapping[str, str] = NO_LABELS


Source = Callable[[], Iterable[Gauge]]


def of_build(*, version: str, chroma: str) -> Iterator[Gauge]:
    labels = {"version": version, "python": platform.python_version(), "chroma": chroma}
    yield Gauge("rag_build_info", "1, with the releases of this service, of Python and of Chroma", 1, labels)


def of_engine(engine: EngineHealth, *, is_ready: bool) -> Iterator[Gauge]:
    yield Gauge("rag_engine_up", "1 when the engine answers", float(is_ready))
    if engine.mode == "child":
        yield Gauge("rag_engine_restarts_total", "Times the engine was restarted", engine.restarts)


def of_disk(*, free_mb: float, floor_mb: float) -> Iterator[Gauge]:
    yield Gauge("rag_disk_free_bytes", "Free disk space under the data directory", free_mb * 2**20)
    yield Gauge("rag_disk_floor_bytes", "Free disk space below which nothing is stored", floor_mb * 2**20)


def of_catalogue(seen: Observed) -> Iterator[Gauge]:
    """Yield what the catalogue knows of all collections, and of those that have series of their own."""
    yield Gauge("rag_index_lag", "Writes that the index has yet to be told of", seen.index_lag)
    yield Gauge("rag_collections", "Collections", seen.collections)
    yield Gauge("rag_documents", "Documents in all collections", seen.documents)
    for name, meaning, number in (
        ("rag_collections_rebuilding", "Collections whose index is being rebuilt", seen.rebuilding),
        ("rag_collections_adopting", "Collections that are being taken in from the engine", seen.adopting),
        ("rag_collections_faulty", "Collections with a fault that a rebuild did not repair", seen.faulty),
        ("rag_collections_standing_still", "Collections whose writes the engine refused", seen.standing_still),
        ("rag_documents_set_aside", "Documents that the engine cannot take", seen.set_aside),
    ):
        yield Gauge(name, meaning, number)
    if seen.lowest_recall is not None:
        yield Gauge("rag_index_lowest_recall_at_10", "The lowest recall of all collections", seen.lowest_recall)
    if seen.lowest_filtered_recall is not None:
        meaning = "The lowest recall of all collections with a filter"
        yield Gauge("rag_index_lowest_filtered_recall_at_10", meaning, seen.lowest_filtered_recall)
    yield from of_collections(seen.largest, seen.reports, rebuilding=seen.rebuilding_keys)


def of_collections(
    collections: Sequence[Collection], reports: Mapping[int, IndexReport], *, rebuilding: frozenset[int]
) -> Iterator[Gauge]:
    for each in collections:
        report = reports.get(each.key)
        if report is None:
            continue
        rebuilt = report.documents_rebuilt if each.key in rebuilding else None
        for name, meaning, value in (
            ("rag_index_recall_at_10", "Share of the ten nearest that the index finds", report.recall_at_10),
            ("rag_index_filtered_recall_at_10", "The same with a filter", report.filtered_recall_at_10),
            ("rag_index_search_width", "The width of search that its recall required", report.search_width),
            ("rag_index_bytes", "Size of the index's files", report.index_bytes),
            ("rag_index_rebuilds", "Times the index was rebuilt", report.rebuilds),
            ("rag_index_rebuilt_documents", "Documents that the rebuild under way has done", rebuilt),
        ):
            if value is not None:
                yield Gauge(name, meaning, value, {"collection": each.name})


def of_sizes(sizes: Mapping[str, int]) -> Iterator[Gauge]:
    for part, size in sizes.items():
        yield Gauge("rag_stored_bytes", "Size on the disk, by the part of the service", size, {"part": part})


def of_backups(
    look: Callable[[], datetime | None], times: BackupTimes | None, now: datetime | None = None
) -> Iterator[Gauge]:
    """Yield the interval of the schedule, if there is one, and the age of the newest backup, which `look` finds; no age
    while there is no backup, or where they lie cannot be read."""
    if times is not None:
        meaning = "How often the service makes a backup by itself"
        yield Gauge("rag_backup_interval_seconds", meaning, times.interval_seconds)
    try:
        newest = look()
    except OSError as error:
        log.warning("the folder of backups cannot be read", reason=error.strerror)
        return
    if newest is not None:
        age_seconds = ((now or datetime.now(UTC)) - newest).total_seconds()
        yield Gauge("rag_backup_age_seconds", "Age of the newest backup", max(0.0, age_seconds))
        yield Gauge("rag_backup_last_success_timestamp_seconds", "When it was made", newest.timestamp())
