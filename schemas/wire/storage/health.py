"""The answers of the service about itself: its health report, and whether it is ready."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from schemas.connections import HEALTHY, UNHEALTHY
from schemas.storage.health import EngineHealth, StorageHealth
from schemas.wire.storage.index import adoptions_fields, hindrances_fields, indexes_answer

Answer = dict[str, Any]
SERVICE = "rag-wrapper"


def health_answer(health: StorageHealth, *, version: str, now: datetime) -> Answer:
    known = health.catalog
    catalog = {"status": HEALTHY, "kind": health.catalog_kind}
    answer: Answer = {
        "status": health.status,
        "service": SERVICE,
        "version": version,
        "collections_count": None if known is None else known.collections,
        "engine": _engine(health.engine),
        "catalog": catalog if known is not None else {**catalog, "status": UNHEALTHY, "message": health.fault},
        "disk": {"free_mb": round(health.disk_free_mb, 1), "floor_mb": health.disk_floor_mb},
        "index_lag": None if known is None else known.index_lag,
        "indexes": None if known is None else indexes_answer(known.indexes),
        "timestamp": now.isoformat(timespec="milliseconds"),
    }
    if known is None:
        return answer
    return answer | adoptions_fields(known.adoptions) | hindrances_fields(known.hindrances)


def ready_answer(works: bool) -> Answer:
    return {"status": "ready" if works else "not ready"}


def live_answer() -> Answer:
    return {"status": "alive"}


def about_answer(version: str) -> Answer:
    return {"service": SERVICE, "version": version, "docs": "/docs", "openapi": "/openapi.json"}


def _engine(engine: EngineHealth) -> Answer:
    answer: Answer = {"status": engine.status, "mode": engine.mode}
    if engine.age_seconds is None:
        return {**answer, "restarts": engine.restarts, "since": engine.since}
    answer["age_seconds"] = round(engine.age_seconds, 1)
    return {**answer, "message": engine.message} if engine.message else answer
