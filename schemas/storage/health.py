"""The health of the storage and of the service around it, as `/health` reports it and others judge it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas.connections import DEGRADED, HEALTHY, UNHEALTHY, HealthReport
from schemas.storage.index_reports import Adoption, Hindrances, IndexSummary

ENGINE_READY = "ready"


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """The vector engine as it was last seen: by the keeper that runs it, or `age_seconds` ago at its own address.

    `message` says why an engine that answers is of no use; `restarts` and `since` are known of the keeper's engine.
    `cleaning` is `waiting` while deleted contents are to be removed from its files, `failed` when they could not be.
    """

    status: str
    mode: str
    message: str = ""
    age_seconds: float | None = None
    restarts: int = 0
    since: str | None = None
    cleaning: str | None = None


@dataclass(frozen=True, slots=True)
class CatalogHealth:
    """The catalogue's answers to these questions, all from one snapshot."""

    collections: int
    index_lag: int
    indexes: IndexSummary
    adoptions: Sequence[Adoption]
    hindrances: Hindrances


@dataclass(frozen=True, slots=True)
class StorageHealth:
    """The state of the storage. `catalog` is None when the catalogue does not answer, for the reason in `fault`."""

    engine: EngineHealth
    catalog_kind: str
    catalog: CatalogHealth | None
    fault: str
    disk_free_mb: float
    disk_floor_mb: int

    @property
    def works(self) -> bool:
        """True when the storage can do its work at all."""
        return self.catalog is not None

    @property
    def takes_writes(self) -> bool:
        """False when the disk is so full that nothing is stored."""
        return self.disk_free_mb >= self.disk_floor_mb

    @property
    def status(self) -> str:
        if self.catalog is None:
            return UNHEALTHY
        adopting = any(not each.is_complete for each in self.catalog.adoptions)
        waits = self.catalog.indexes.rebuilding or adopting or self.catalog.hindrances.standing_still
        return DEGRADED if self.engine.status != ENGINE_READY or waits or not self.takes_writes else HEALTHY


@dataclass(frozen=True, slots=True)
class BreakerHealth:
    """The circuit breaker of the context tools."""

    is_closed: bool

    @property
    def is_well(self) -> bool:
        return self.is_closed


@dataclass(frozen=True, slots=True)
class ModelHealth:
    """A model of the service, by its name in the report. `report` is None when it was not looked at yet."""

    name: str
    report: HealthReport | None

    @property
    def is_well(self) -> bool:
        return self.report is not None and self.report.status != UNHEALTHY


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence for the operator about what keeps nobody from working; empty: there is nothing to say."""

    sentence: str
    is_well = True


Part = BreakerHealth | ModelHealth | Notice
"""A part of the service that stands above the storage."""


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    """The state of the whole service at a moment: the storage's, and that of the parts above it."""

    storage: StorageHealth
    parts: Sequence[Part]
    at: datetime

    @property
    def works(self) -> bool:
        """True when the service can do its work at all."""
        return self.storage.works

    @property
    def status(self) -> str:
        """The status of the storage, and `degraded` where only a part above it is not well."""
        if self.storage.status == HEALTHY and not all(part.is_well for part in self.parts):
            return DEGRADED
        return self.storage.status
