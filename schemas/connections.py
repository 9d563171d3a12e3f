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
    be changed over the API. `generation` is another one each time a stored connection is made or changed.
    """

    id: str
    kind: str
    provider: str
    config: dict[str, Any]
    display_name: str | None = None
    origin: str = "stored"
    generation: str = ""

    @property
    def version(self) -> tuple[str, str]:
        """What never stands for another configuration."""
        return self.id, self.generation


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection at a provider. None where the provider does not know them: `count`, `dimension`, `revision` (a
    number that grows with each write), `id`, which no other collection ever has, not even a later one of the same
    name, and `number`, which is higher the later a collection was made. `id` and `revision` together stand for the
    content.
    """

    name: str
    count: int | None
    metadata: Metadata
    metric: str
    dimension: int | None
    revision: int | None = None
    id: str | None = None
    number: int | None = None


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


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that a provider has, as its form offers it. `type` is `embedding` or `llm`; `max_tokens` what it reads at
    most, None where the provider does not say."""

    id: str
    name: str
    type: str
    capabilities: tuple[str, ...]
    max_tokens: int | None = None
    description: str = ""


PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

STAGES = ("config", "placeholders", "address", "connect", "authenticate", "capability")
"""Of a connection test, in their order."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a connection test. `verdict` is passed, failed or skipped; `message` a sentence, `next_step` what to
    do about a failure; `faults` what is wrong with which field."""

    name: str
    verdict: str
    latency_ms: float
    message: str
    next_step: str | None = None
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class TestReport:
    """What came of a connection test; `stages` are always all of `STAGES`.

    Of a success, `method` says what was done in the end (`list_collections`, `embed_text`, `complete_chat`), `details`
    is what the service said of itself, `collections` (each `{name, count, metadata}`) and `collections_count` are None
    where it has none, and `models` is None but where they were asked for. Of a failure, `message` is the sentence and
    `error_type` one of `ERROR_TYPES`.
    """

    success: bool
    provider: str
    kind: str
    duration_ms: float
    stages: tuple[Stage, ...]
    method: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    collections_count: int | None = None
    collections: tuple[dict[str, Any], ...] | None = None
    models: tuple[ModelInfo, ...] | None = None
    message: str | None = None
    error_type: str | None = None


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
