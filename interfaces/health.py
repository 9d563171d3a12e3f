"""What stands above the storage in health reports and gauges: models, the circuit breaker, jobs, watchers, keys,
backups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from interfaces.layers import Layers
from registry.embedding.queries import USUAL, connection_of
from retrieval.jobs.stored_jobs import StoredJobs
from retrieval.parsing.confinement import lacking
from schemas.access.callers import SERVICE, acting_as
from schemas.access.owners import Asker
from schemas.connections import DEGRADED, UNHEALTHY, Connection, HealthReport
from schemas.contracts.jobs import STATUSES
from schemas.contracts.watchers import LOST, STATES
from schemas.errors import RagError
from schemas.storage.health import BreakerHealth, ModelHealth, Notice, Part
from wrapper.access.stored_keys import StoredKeys
from wrapper.observing.gauges import Gauge, of_backups
from wrapper.service import Service

R = TypeVar("R", HealthReport, HealthReport | None)

PAID_LOOKS = 10
"""The number of looks of which only one asks a model that takes a key, as long as the model answers."""
MODELS = ("embedding", "chat", "rerank")
"""The names of the service's models in health reports."""
TEXTS_FAIL = "Within a day, {} had texts that could not be embedded while others could: GET /api/jobs says which"
UPLOADS_FAIL = "Short texts are embedded, but {} wait whose texts failed again and again: GET /api/jobs says why"
BACKUP_SECONDS = 60.0
"""The interval of the looks at backups, which read a whole folder."""
TRIES = 2
"""The tries after which no single text of a file that still waits is at fault."""


def report_health(service: Service, layers: Layers) -> None:
    """Have the circuit breaker and the models in the service's health report, the models asked in the background."""
    service.on_health(lambda: BreakerHealth(layers.context.breaker.is_closed()))
    for sentence in lacking():
        service.on_health(partial(Notice, sentence))
    service.on_health(partial(_failed_texts, layers.jobs))
    for name in MODELS:
        _look_at_model(service, layers, name)


def _look_at_model(service: Service, layers: Layers, name: str) -> None:
    """Look at the model that the service has under a name at each time, if it has one."""
    every_seconds = layers.settings.health_look_seconds

    def look() -> None:
        connection = layers.connections.of_service().get(name)
        if connection is not None:
            # A service that wants a key usually charges for requests.
            is_paid = "api_key" in connection.config or connection.sealed
            with acting_as(SERVICE):
                layers.health.look(connection, recent_seconds=every_seconds * (PAID_LOOKS if is_paid else 1))

    def report() -> Part:
        connection = layers.connections.of_service().get(name)
        if connection is None:
            return Notice("")
        return ModelHealth(name, with_uploads(layers, connection, layers.health.last(connection)))

    service.looks.add(name, look, None, every_seconds=every_seconds, limit_seconds=layers.settings.health_seconds)
    service.on_health(report)


def with_uploads(layers: Layers, connection: Connection, report: R) -> R:
    """Return the report on a connection as `degraded` where uploads by it fail again and again while it answers."""
    if report is None or report.status == UNHEALTHY or connection.kind != "embedding":
        return report
    files = 0
    with suppress(RagError), acting_as(SERVICE):
        names: list[str] = layers.jobs.failed_texts(tries=TRIES, within_seconds=0)
        if names:
            by = {each.name: connection_of(each) for each in layers.corpus.open().existing([*set(names)])}
            files = sum(by.get(each, USUAL) == connection.id for each in names)
    sentence = UPLOADS_FAIL.format(_files(files))
    return replace(report, status=DEGRADED, message=sentence, error=sentence) if files else report


def _failed_texts(jobs: StoredJobs) -> Notice:
    """Say of an embedding service that answers that it cannot embed every chunk."""
    files = 0
    with suppress(RagError):  # the report says that the catalogue does not answer
        files = len(jobs.failed_texts())
    return Notice(TEXTS_FAIL.format(_files(files)) if files else "")


def _files(number: int) -> str:
    return f"{number} files" if number > 1 else "a file"


def report_gauges(service: Service, layers: Layers) -> None:
    """Have all of these in the metrics."""
    keys = StoredKeys(service.catalog)

    def parts() -> Iterator[Gauge]:
        jobs = layers.jobs.counts()
        for status in STATUSES:
            yield Gauge("rag_jobs", "Jobs that are remembered", jobs.by_status.get(status, 0), {"status": status})
        yield Gauge("rag_jobs_chunks_done", "Chunks that the jobs under way have stored", jobs.chunks_done)
        watchers = layers.watchers.all(asker=Asker(sees_all=True))
        by_state = Counter(each.state for each in watchers)
        for state in (*STATES, LOST):
            yield Gauge("rag_watchers", "Watched folders", by_state.get(state, 0), {"state": state})
        failed = sum(each.report.failed for each in watchers)
        yield Gauge("rag_watcher_failed_files", "Files of watched folders that failed", failed)
        is_open = not layers.context.breaker.is_closed()
        yield Gauge("rag_circuit_breaker_open", "1 while searches by meaning are left out", float(is_open))
        for name, connection in layers.connections.of_service().items():
            report = layers.health.last(connection)
            if report is not None:
                is_up = float(report.status != UNHEALTHY)
                yield Gauge("rag_model_up", "1 when the model answers", is_up, {"model": name})
        yield Gauge("rag_keys", "Keys that have neither ended nor been revoked", keys.valid())

    service.on_gauges("parts", parts)
    newest, times = service.backups.last_good_at, service.settings.backup_every
    service.on_gauges("backups", lambda: of_backups(newest, times), every_seconds=BACKUP_SECONDS)
