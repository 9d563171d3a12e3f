"""Answers about connections to models and document stores, and about their providers.

Made from openapi.yaml by `clients/python/wire_types.py`: change that, not this."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from rag_wrapper_client.wire.shared import Metric


class Connection(TypedDict):
    id: str
    type: ConnectionType
    provider: str
    display_name: str | None
    config: dict[str, Any]
    secrets: dict[str, list[str]]
    stored_secrets: list[str]
    origin: Literal["built-in", "declared", "stored"]
    chat_model: bool
    owner: str
    shared: bool
    warnings: NotRequired[list[str]]


class ConnectionHealth(TypedDict):
    id: str
    type: ConnectionType
    status: Literal["healthy", "degraded", "unhealthy"]
    provider: str
    timestamp: str
    message: str
    error: NotRequired[str]
    details: ConnectionHealthDetails
    history: list[ConnectionHealthHistoryItem]
    warnings: NotRequired[list[str]]


class ConnectionHealthDetails(TypedDict):
    url: NotRequired[str | None]
    response_time_ms: NotRequired[float]
    collections_count: NotRequired[int]
    storage_bytes: NotRequired[int]
    age_seconds: NotRequired[float]
    error_type: NotRequired[ConnectionErrorType]


class ConnectionHealthHistoryItem(TypedDict):
    at: str
    status: Literal["healthy", "degraded", "unhealthy"]
    response_time_ms: float | None


class ConnectionSchema(TypedDict):
    provider: str
    type: ConnectionType
    display_name: str
    description: str
    fields: list[FormField]
    choices: list[ConnectionSchemaChoice]
    capabilities: list[str]
    json_schema: dict[str, Any]
    warnings: NotRequired[list[str]]


class ConnectionSchemaChoice(TypedDict):
    title: str
    fields: list[str]


class DeleteConnectionAnswer(TypedDict):
    status: Literal["deleted"]
    id: str
    warnings: NotRequired[list[str]]


class EnvVar(TypedDict):
    name: str
    value: NotRequired[Literal["********"]]
    allowed: NotRequired[bool]
    set: NotRequired[bool]
    exists: NotRequired[bool]
    placeholder: NotRequired[str]


class FieldFault(TypedDict):
    pointer: str
    message: str


class FormField(TypedDict):
    name: str
    type: Literal["text", "url", "password", "number", "boolean", "select", "list"]
    label: str
    description: str
    required: bool
    default: Any
    placeholder: Any
    secret: bool
    validation: FormFieldValidation
    min: float | None
    max: float | None
    step: float | None
    options: NotRequired[list[Any]]
    group: str | None
    advanced: bool
    choice: str | None


class FormFieldValidation(TypedDict):
    pattern: NotRequired[str]
    min: NotRequired[float]
    max: NotRequired[float]
    message: NotRequired[str]


class ListCollectionsOfConnectionAnswer(TypedDict):
    connection: str
    collections: list[RemoteCollection]
    warnings: NotRequired[list[str]]


class ListConnectionsAnswer(TypedDict):
    connections: list[Connection]
    next_cursor: str | None
    warnings: NotRequired[list[str]]


class ListEnvVarsAnswer(TypedDict):
    variables: list[EnvVar]
    count: int
    warnings: NotRequired[list[str]]


class ListProvidersAnswer(TypedDict):
    rag: list[Provider]
    embedding: list[Provider]
    llm: list[Provider]
    rerank: list[Provider]
    warnings: NotRequired[list[str]]


class Models(TypedDict):
    provider: str
    count: int
    models: list[ModelsModel]
    warnings: NotRequired[list[str]]


class ModelsModel(TypedDict):
    id: str
    name: str
    type: Literal["embedding", "llm"]
    capabilities: list[Literal["embeddings", "chat"]]
    maxTokens: int | None
    description: str


class Provider(TypedDict):
    id: str
    type: ConnectionType
    display_name: str
    description: str
    capabilities: list[
        Literal[
            "collections",
            "search",
            "embeddings",
            "metadata_filtering",
            "dynamic_collections",
            "text_search",
            "gather",
            "order_by",
        ]
    ]
    limits: dict[str, Any]
    viable: bool
    reason: NotRequired[str]
    schema: ConnectionSchema | None
    warnings: NotRequired[list[str]]


class RemoteCollection(TypedDict):
    id: str | None
    name: str
    count: int | None
    metadata: dict[str, Any]
    metric: Metric
    dimension: int | None
    revision: int | None
    number: NotRequired[int | None]


class ShowHealthOfConnectionsAnswer(TypedDict):
    connections: list[ConnectionHealth]
    healthy: int
    unhealthy: int
    next_cursor: str | None
    warnings: NotRequired[list[str]]


class SuggestEnvVarsAnswer(TypedDict):
    provider: str
    field: str
    suggestions: list[EnvVar]
    warnings: NotRequired[list[str]]


class TestFailed(TypedDict):
    success: Literal[False]
    provider: str
    type: ConnectionType
    duration: float
    error: str
    message: str
    errorType: ConnectionErrorType
    stages: list[TestStage]
    warnings: NotRequired[list[str]]


class TestPassed(TypedDict):
    success: Literal[True]
    provider: str
    type: ConnectionType
    duration: float
    method: str
    details: dict[str, Any]
    collectionCount: NotRequired[int]
    collections: NotRequired[list[TestPassedCollection]]
    stages: list[TestStage]
    warnings: NotRequired[list[str]]


class TestPassedCollection(TypedDict):
    name: str
    count: int | None
    metadata: dict[str, Any]


class TestStage(TypedDict):
    name: Literal["config", "placeholders", "address", "connect", "authenticate", "capability"]
    verdict: Literal["passed", "failed", "skipped"]
    latency_ms: float
    message: str
    next_step: str | None
    errors: NotRequired[list[FieldFault]]


class ValidateConnectionAnswer(TypedDict):
    valid: bool
    errors: list[FieldFault]
    warnings: list[FieldFault]


class ValidateEnvVarsAnswer(TypedDict):
    valid: bool
    variables: list[EnvVar]
    warnings: list[str]
    missingVars: list[str]
    disallowedVars: list[str]


ConnectionErrorType: TypeAlias = Literal[
    "timeout",
    "authentication",
    "authorization",
    "not_found",
    "network",
    "rate_limit",
    "invalid_config",
    "blocked",
    "unknown",
]


ConnectionType: TypeAlias = Literal["rag", "embedding", "llm", "rerank"]
