"""Connections to other services, and reports about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from schemas.access.owners import UNNAMED, Ownership
from schemas.errors import InvalidInputError

KINDS = ("rag", "embedding", "llm", "rerank")
"""The kinds of connections: to documents, to embeddings, to language models, to reranking models."""

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

    `sealed` has the secrets that people typed, encrypted, by their JSON Pointer into `config`, which has none of them.
    `origin` is `stored` (made over the API), `declared` (in the configuration file) or `built-in`; only the first can
    be changed over the API. `generation` is another one each time a stored connection is made or changed. `of` says
    whose a stored connection is; the others are everybody's.
    """

    id: str
    kind: str
    provider: str
    config: dict[str, Any] = field(repr=False)  # one that is being made may hold a secret in clear
    display_name: str | None = None
    origin: str = "stored"
    generation: str = ""
    sealed: dict[str, str] = field(default_factory=dict)
    of: Ownership = UNNAMED

    @property
    def version(self) -> tuple[str, str]:
        """A name for this configuration that no other ever has."""
        return self.id, self.generation


@dataclass(frozen=True, slots=True)
class ShownConnection:
    """The public part of a connection: `config` without its secrets.

    Secrets that are set are shown as the names of the variables and files they refer to, and as nothing else. Those
    that a person typed refer to none, and are named in `stored_secrets`.
    """

    id: str
    kind: str
    provider: str
    display_name: str | None
    config: dict[str, Any]
    secrets: dict[str, list[str]]
    origin: str
    of: Ownership
    stored_secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EnvVar:
    """The public part of an environment variable that a placeholder names. One that is not allowed counts as not set,
    whether it is or not."""

    name: str
    is_allowed: bool
    is_set: bool


@dataclass(frozen=True, slots=True)
class ProviderDescription:
    """A provider as the catalogue lists it. `reason` says why it cannot be used on this machine, None when it can;
    `schema` is the JSON Schema of its connections, None when its module could not be imported."""

    id: str
    kind: str
    capabilities: list[str]
    display_name: str
    description: str
    limits: dict[str, Any]
    reason: str | None
    schema: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection at a provider.

    `revision` grows with each write. No other collection ever has the `id`, not even a later one of the same name; `id`
    and `revision` together stand for the content. `number` is higher the later the collection was made, or re-embedded.
    Each of them, `count` and `dimension` is None where the provider does not know it.
    """

    name: str
    count: int | None
    metadata: dict[str, Any]
    metric: str
    dimension: int | None
    revision: int | None = None
    id: str | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The health of a provider at a moment (contract *storage*, "Health Check with Details").

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
class Look:
    """One look of a connection's history: when it was (ISO 8601 in UTC), the status that was found, and how long the
    service took to answer, None where it did not or was not asked."""

    at: str
    status: str
    response_time_ms: float | None


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in one field of a configuration. `pointer` is a JSON Pointer into it, "" for the whole."""

    pointer: str
    message: str


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model of a provider, as its form offers it.

    `type` is `embedding` or `llm`; `max_tokens` is the longest input, None where the provider does not say.
    """

    id: str
    name: str
    type: str
    capabilities: tuple[str, ...]
    max_tokens: int | None = None
    description: str = ""


PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

STAGES = ("config", "placeholders", "address", "connect", "authenticate", "capability")
"""The stages of a connection test, in order."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a connection test.

    `verdict` is passed, failed or skipped, and `message` a sentence. `next_step` says what to do about a failure;
    `faults` say what is wrong with which field.
    """

    name: str
    verdict: str
    latency_ms: float
    message: str
    next_step: str | None = None
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class TestReport:
    """The result of a connection test; `stages` are always all of `STAGES`.

    After a success, `method` names the last call (`list_collections`, `embed_text`, `complete_chat`,
    `rerank_texts`) and `details` are
    what the service said of itself; `collections` (each `{name, count, metadata}`) and `collections_count` are None
    where it has none, and `models` is None unless they were asked for. After a failure, `message` is the sentence and
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
