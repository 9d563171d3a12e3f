"""The gauges of what stands above the storage: jobs, watchers, models, keys, backups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from interfaces.layers import Layers
from retrieval.jobs.stored_jobs import StoredJobs
from retrieval.watching.stored_reports import Watchers
from schemas.connections import UNHEALTHY
from schemas.contracts.jobs import STATUSES
from schemas.contracts.watchers import LOST, STATES
from wrapper.access.stored_keys import StoredKeys
from wrapper.observing.gauges import Gauge, of_backups
from wrapper.service import Service

BACKUP_SECONDS = 60.0
"""The interval of the looks at backups, which read a whole folder."""


def report_gauges(service: Service, layers: Layers) -> None:
    """Have all of these in the metrics."""
    keys = StoredKeys(service.catalog)

    def parts() -> Iterator[Gauge]:
        yield from of_jobs(layers.jobs)
        yield from of_watchers(layers.watchers)
        yield from of_models(layers)
        yield from of_keys(keys.valid())

    service.on_gauges("parts", parts)
    newest, times = service.backups.last_good_at, service.settings.backup_every
    service.on_gauges("backups", lambda: of_backups(newest, times), every_seconds=BACKUP_SECONDS)


def of_jobs(jobs: StoredJobs) -> Iterator[Gauge]:
    known = jobs.counts()
    for status in STATUSES:
        yield Gauge("rag_jobs", "Jobs that are remembered", known.by_status.get(status, 0), {"status": status})
    yield Gauge("rag_jobs_chunks_done", "Chunks that the jobs under way have stored", known.chunks_done)


def of_watchers(watchers: Watchers) -> Iterator[Gauge]:
    known = watchers.of_all()
    by_state = Counter(each.state for each in known)
    for state in (*STATES, LOST):
        yield Gauge("rag_watchers", "Watched folders", by_state.get(state, 0), {"state": state})
    failed = sum(each.report.failed for each in known)
    yield Gauge("rag_watcher_failed_files", "Files of watched folders that failed", failed)


def of_models(layers: Layers) -> Iterator[Gauge]:
    is_open = not layers.context.breaker.is_closed()
    yield Gauge("rag_circuit_breaker_open", "1 while searches by meaning are left out", float(is_open))
    for name, connection in layers.connections.of_service().items():
        report = layers.health.last(connection)
        if report is not None:
            yield Gauge("rag_model_up", "1 when the model answers", float(report.status != UNHEALTHY), {"model": name})


def of_keys(valid: int) -> Iterator[Gauge]:
    yield Gauge("rag_keys", "Keys that have neither ended nor been revoked", valid)
