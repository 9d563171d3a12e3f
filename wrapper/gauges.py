"""The gauges of `/metrics`: the state of the service and of each collection.

They are apart from `wrapper/metrics.py` because prometheus-client decides at import whether there are several
processes, and gunicorn's master says so only after it has imported this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from schemas.records import Collection
from schemas.storage.index_reports import IndexReport
from wrapper.catalog.index_state.reports import NOTHING_KNOWN
from wrapper.catalog.index_state.states import ADOPTING, REBUILDING


class Gauge(NamedTuple):
    """A number as it is now. `collection` is set where each collection has one."""

    name: str
    meaning: str
    value: float
    collection: str | None = None


def of_service(*, index_lag: int, engine_ready: bool, free_disk_mb: float) -> Iterator[Gauge]:
    yield Gauge("rag_index_lag", "Writes that the index has yet to be told of", index_lag)
    yield Gauge("rag_engine_up", "1 when the engine answers", float(engine_ready))
    yield Gauge("rag_disk_free_megabytes", "Free disk space under the data directory", free_disk_mb)


def of_collections(collections: Sequence[Collection], reports: Mapping[int, IndexReport]) -> Iterator[Gauge]:
    yield Gauge("rag_collections", "Collections", len(collections))
    yield Gauge("rag_documents", "Documents in all collections", sum(each.count for each in collections))
    rebuilding = sum(each.index_state == REBUILDING for each in collections)
    yield Gauge("rag_collections_rebuilding", "Collections whose index is being rebuilt", rebuilding)
    adopting = sum(each.index_state == ADOPTING for each in collections)
    yield Gauge("rag_collections_adopting", "Collections that are being taken in from the engine", adopting)
    for each in collections:
        report = reports.get(each.key, NOTHING_KNOWN)
        rebuilt = report.documents_rebuilt if each.index_state == REBUILDING else None
        for name, meaning, value in (
            ("rag_index_recall_at_10", "Share of the ten nearest that the index finds", report.recall_at_10),
            ("rag_index_bytes", "Size of the index's files", report.index_bytes),
            ("rag_index_rebuilds", "Times the index was rebuilt", report.rebuilds),
            ("rag_index_rebuilt_documents", "Documents that the rebuild under way has done", rebuilt),
        ):
            if value is not None:
                yield Gauge(name, meaning, value, each.name)
