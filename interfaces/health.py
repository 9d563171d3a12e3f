"""The parts of health reports that are above the storage: the models of the settings, and the circuit breaker."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from interfaces.layers import Layers
from registry.health import HealthWatch
from retrieval.jobs.stored_jobs import StoredJobs
from retrieval.reading.parsing_process import not_confined
from schemas.connections import HEALTHY, UNHEALTHY, Connection
from schemas.errors import RagError, UnavailableError
from schemas.storage.health import ENGINE_READY, BreakerHealth, ModelHealth, Notice
from wrapper.service import Service

FRESH_SECONDS = 2.0
"""The number of seconds for which a health report is reused."""
PAID_LOOKS = 10
"""The number of looks of which only one asks a model that takes a key, as long as the model answers."""
MODELS = {"embedding": "embedding", "llm": "chat", "rerank": "rerank"}
"""The names of the settings' models in health reports, by their kind."""
TEXTS_FAIL = "Within a day, {} had a chunk that could not be embedded while others could: GET /api/jobs says which"


def report_health(service: Service, layers: Layers) -> None:
    """Have the circuit breaker and the models in the service's health report, the models asked in the background."""
    service.on_health(lambda: BreakerHealth(layers.context.breaker.is_closed()))
    for sentence in not_confined():
        service.on_health(partial(Notice, sentence))
    service.on_health(partial(_failed_texts, layers.jobs))
    for name, connection in layers.models.items():
        _look_at_model(service, layers, name, connection)


def _look_at_model(service: Service, layers: Layers, name: str, connection: Connection) -> None:
    every_seconds = layers.settings.health_look_seconds
    # A service that wants a key usually charges for requests.
    recent_seconds = every_seconds * (PAID_LOOKS if "api_key" in connection.config else 1)
    service.looks.add(
        name,
        lambda: layers.health.look(connection, recent_seconds=recent_seconds),
        None,
        every_seconds=every_seconds,
        limit_seconds=layers.settings.health_seconds,
    )
    service.on_health(lambda: ModelHealth(name, layers.health.last(connection)))


def _failed_texts(jobs: StoredJobs) -> Notice:
    """Say of an embedding service that answers that it cannot embed every chunk."""
    files = 0
    with suppress(RagError):  # the report says that the catalogue does not answer
        files = jobs.files_with_failed_texts()
    return Notice(TEXTS_FAIL.format(f"{files} files" if files > 1 else "a file") if files else "")


def check_storage(service: Service) -> None:
    """Raise UnavailableError, saying why, when searches by vector do not work as they should."""
    health = service.storage_health()
    if health.engine.status != ENGINE_READY:
        raise UnavailableError(f"The vector engine is {health.engine.status}: searches are slower meanwhile")
    if health.status != HEALTHY:
        raise UnavailableError(f"The storage is {health.status}, as GET /health tells: searches are slower meanwhile")


def check_model(health: HealthWatch, connection: Connection) -> None:
    """Raise UnavailableError when the service of a model is not well."""
    report = health.of(connection)
    if report.status == UNHEALTHY:
        raise UnavailableError(report.message)
