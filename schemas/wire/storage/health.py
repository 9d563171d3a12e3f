"""The answers of the service about itself: its health report, and whether it is ready."""

from __future__ import annotations

from typing import Any

from schemas.connections import HEALTHY, UNHEALTHY
from schemas.storage.health import BreakerHealth, EngineHealth, ModelHealth, Notice, ServiceHealth, StorageHealth
from schemas.wire.storage.index import adoptions_fields, hindrances_fields, indexes_answer

Answer = dict[str, Any]
SERVICE = "rag-wrapper"
SHORT = ("status", "service", "version", "timestamp", "healthy")
"""The fields of the health report that anybody may see."""


def health_answer(health: ServiceHealth, *, version: str) -> Answer:
    storage = health.storage
    known = storage.catalog
    answer: Answer = {
        "status": health.status,
        "service": SERVICE,
        "version": version,
        "collections_count": None if known is None else known.collections,
        "engine": _engine(storage.engine),
        "catalog": _catalog(storage),
        "disk": _disk(storage),
        "index_lag": None if known is None else known.index_lag,
        "indexes": None if known is None else indexes_answer(known.indexes),
        "timestamp": health.at.isoformat(timespec="milliseconds"),
    }
    if known is not None:
        answer |= adoptions_fields(known.adoptions) | hindrances_fields(known.hindrances)
    for part in health.parts:
        if isinstance(part, Notice):
            if part.sentence:
                answer.setdefault("notices", []).append(part.sentence)
        else:
            answer |= _part(part)
    # The word of the contract *context*.
    return answer | {"healthy": health.status == HEALTHY}


def _disk(storage: StorageHealth) -> Answer:
    answer: Answer = {"free_mb": round(storage.disk_free_mb, 1), "floor_mb": storage.disk_floor_mb}
    if not storage.takes_writes:
        answer["message"] = (
            f"Nothing is stored while less than {storage.disk_floor_mb:,} MB are free (RAG_DISK_FLOOR_MB): make room "
            "on the disk of RAG_DATA_DIR, or enlarge it"
        )
    return answer


def short_health_answer(health: ServiceHealth, *, version: str) -> Answer:
    """Spell what anybody may know of the service: whether it works, and nothing of what is in it."""
    whole = health_answer(health, version=version)
    return {name: whole[name] for name in SHORT}


def ready_answer(works: bool) -> Answer:
    return {"status": "ready" if works else "not ready"}


def live_answer() -> Answer:
    return {"status": "alive"}


def about_answer(version: str) -> Answer:
    return {"service": SERVICE, "version": version, "docs": "/docs", "openapi": "/openapi.json"}


def _engine(engine: EngineHealth) -> Answer:
    answer: Answer = {"status": engine.status, "mode": engine.mode}
    if engine.age_seconds is None:
        answer |= {"restarts": engine.restarts, "since": engine.since}
        return {**answer, "cleaning": engine.cleaning} if engine.cleaning else answer
    answer["age_seconds"] = round(engine.age_seconds, 1)
    return {**answer, "message": engine.message} if engine.message else answer


def _catalog(storage: StorageHealth) -> Answer:
    if storage.works:
        return {"status": HEALTHY, "kind": storage.catalog_kind}
    return {"status": UNHEALTHY, "kind": storage.catalog_kind, "message": storage.fault}


def _part(part: BreakerHealth | ModelHealth) -> Answer:
    if isinstance(part, BreakerHealth):
        return {"circuitBreakerOpen": not part.is_closed}
    return {part.name: _model(part)}


def _model(model: ModelHealth) -> Answer:
    report = model.report
    if report is None:
        return {"status": "unknown"}
    told = {"status": report.status, "provider": report.provider, "age_seconds": report.details.get("age_seconds", 0.0)}
    return told if report.status == HEALTHY else {**told, "error": report.message}
