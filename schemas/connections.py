"""Connections to other services, and what is said about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from schemas.errors import InvalidInputError
from schemas.records import Metadata

KINDS = ("rag", "embedding", "llm")
"""What a connection is for: documents, vectors of texts, words."""

HEALTHY, DEGRADED, UNHEALTHY = "healthy", "degraded", "unhealthy"

ERROR_TYPES = (
    "timeout",
    "authentication",
    "authorization",
    "not_found",
    "network",
    "rate_limit",
    "invalid_config",
    "blocked",
    "unknown",
)
"""The coarse reasons of a failed connection; `details.error_type` of the errors that providers raise."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A named connection: a provider and how it is reached. Placeholders in `config` are not resolved.

    `origin` is `stored` (made over the API), `declared` (in the configuration file) or `built-in`; only the first can
    be changed over the API.
    """

    id: str
    kind: str
    provider: str
    config: dict[str, Any]
    display_name: str | None = None
    origin: str = "stored"


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection at a provider. `count` and `dimension` are None where the provider does not know them."""

    name: str
    count: int | None
    metadata: Metadata
    metric: str
    dimension: int | None


@dataclass(frozen=True, slots=True)
class HealthReport:
    """How a provider is, at a moment (seed 003, "Health Check with Details").

    `timestamp` is ISO 8601 in UTC; `message` one sentence; `error` the error's sentence when something is wrong;
    `details` what the service says of itself: `response_time_ms`, `collections_count`, `storage_bytes`, …
    """

    status: str
    provider: str
    timestamp: str
    message: str
    error: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one field of a configuration. `pointer` is a JSON Pointer into it, "" the whole."""

    pointer: str
    message: str


class InvalidConfigurationError(InvalidInputError):
    """A connection's configuration does not fit its provider; `details.errors` lists `{pointer, message}`."""

    code = "invalid_config"

    def __init__(self, provider: str, faults: list[Fault]) -> None:
        sentences = "; ".join(fault.message for fault in faults)
        super().__init__(
            f"The configuration for '{provider}' is not valid: {sentences}",
            provider=provider,
            errors=[{"pointer": fault.pointer, "message": fault.message} for fault in faults],
            error_type="invalid_config",
        )


PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
STAGES = ("config", "placeholders", "address", "connect", "authenticate", "capability")
"""What a connection test looks at, in this order; what comes after a failure is skipped."""


@dataclass(frozen=True, slots=True)
class StageReport:
    """One stage of a connection test. `next_step` says what to do about a failure, `errors` which fields are wrong."""

    name: str
    verdict: str
    latency_ms: float
    message: str
    next_step: str | None = None
    errors: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class TestReport:
    """A connection test. `error_type` is one of ERROR_TYPES when it failed, None when all is well; `method` says what
    was tried; `details` what the service told of itself; `collections` the names of a document provider's."""

    __test__ = False  # not a test of pytest's

    provider: str
    kind: str
    duration_ms: float
    stages: tuple[StageReport, ...]
    method: str
    message: str
    error_type: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    collections: tuple[str, ...] | None = None

    @property
    def success(self) -> bool:
        return self.error_type is None
