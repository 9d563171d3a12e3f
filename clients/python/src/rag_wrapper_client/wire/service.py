"""Answers about the service itself: its health, keys, settings, backups and audit log.

Made from openapi.yaml by `clients/python/wire_types.py`: change that, not this."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from rag_wrapper_client.wire.shared import Rebuild, SetAside, Standstill


class ApiKey(TypedDict):
    id: str
    name: str
    scopes: list[Scope]
    collections: list[str] | None
    where: dict[str, Any] | None
    limits: Limits
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    warnings: NotRequired[list[str]]


class AuditEntry(TypedDict):
    """What somebody did."""

    time: str
    key_id: str | None
    user: str | None
    scope: str | None
    method: str
    route: str
    collection: str | None
    count: int | None
    status: int
    address: str | None
    request_id: str | None
    tool: NotRequired[str]
    subject: NotRequired[str]
    cut: NotRequired[Literal[True]]
    repeated: NotRequired[int]


class Backup(TypedDict):
    """What is not known is null, in one that is being made, in one that failed, and in a damaged file."""

    id: str
    state: Literal["running", "done", "failed"]
    created_at: str | None
    bytes: int
    encrypted: bool | None
    verified: bool
    release: str | None
    schema_version: int | None
    counts: BackupCounts | None
    reason: Literal["asked", "schedule", "migration"] | None
    message: str | None
    warnings: NotRequired[list[str]]


class BackupCounts(TypedDict):
    """What it holds."""

    collections: NotRequired[int]
    documents: NotRequired[int]
    keys: NotRequired[int]
    originals: NotRequired[int]


class BeginBackupAnswer(TypedDict):
    id: str
    state: Literal["running"]
    warnings: NotRequired[list[str]]


class ChangedApiKey(TypedDict):
    name: NotRequired[str | None]
    scopes: NotRequired[list[Scope] | None]
    collections: NotRequired[list[str] | None]
    where: NotRequired[dict[str, Any] | Literal["*"] | None]
    limits: NotRequired[Limits]
    expires_at: NotRequired[str | None]


class DeleteBackupAnswer(TypedDict):
    status: Literal["deleted"]
    id: str
    warnings: NotRequired[list[str]]


class DropVectorsAnswer(TypedDict):
    collection: str
    dropped_model: str | None
    model: str | None


class EraseAnswer(TypedDict):
    receipt: ErasureReceipt
    warnings: NotRequired[list[str]]


class ErasureReceipt(TypedDict):
    collection: str | None
    user: str | None
    documents: int
    chunks: int
    files: list[ErasureReceiptFile]
    also_in: list[str]
    began_at: str
    ended_at: str


class ErasureReceiptFile(TypedDict):
    place: str
    done: str
    removed: int | None


class GetDescriptionAnswer(TypedDict):
    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]


class GetLivenessAnswer(TypedDict):
    status: Literal["alive"]
    warnings: NotRequired[list[str]]


class GetReadinessAnswer(TypedDict):
    status: Literal["ready"]


class GetRecentRequestsAnswer(TypedDict):
    warnings: NotRequired[list[str]]
    minutes: list[GetRecentRequestsAnswerMinute]


class GetServiceAnswer(TypedDict):
    service: Literal["rag-wrapper"]
    version: str
    docs: str
    openapi: str
    warnings: NotRequired[list[str]]


class Health(TypedDict):
    status: Literal["healthy", "degraded", "unhealthy"]
    healthy: bool
    circuitBreakerOpen: NotRequired[bool]
    embedding: NotRequired[ModelHealth]
    chat: NotRequired[ModelHealth]
    rerank: NotRequired[ModelHealth]
    notices: NotRequired[list[str]]
    service: Literal["rag-wrapper"]
    version: str
    collections_count: int | None
    engine: HealthEngine
    catalog: HealthCatalog
    disk: HealthDisk
    index_lag: int | None
    indexes: HealthIndexes | None
    adopting: NotRequired[list[HealthAdoptingItem]]
    standing_still: NotRequired[list[HealthStandingStillItem]]
    set_aside: NotRequired[HealthSetAside]
    left_out: NotRequired[list[HealthLeftOutItem]]
    timestamp: str


class HealthAdoptingItem(TypedDict):
    collection: str
    documents: int
    of: int


class HealthCatalog(TypedDict):
    status: str
    kind: Literal["sqlite", "postgresql"]


class HealthDisk(TypedDict):
    free_mb: float
    floor_mb: int
    message: NotRequired[str]


class HealthEngine(TypedDict):
    status: Literal["starting", "ready", "unresponsive", "refusing", "stopped"]
    mode: NotRequired[Literal["child", "remote"]]
    message: NotRequired[str]
    age_seconds: NotRequired[float]
    cleaning: NotRequired[Literal["waiting", "failed"]]


class HealthIndexes(TypedDict):
    ready: int
    rebuilding: list[HealthIndexesRebuildingItem]
    faulty: list[HealthIndexesFaultyItem]
    lowest_recall_at_10: HealthIndexesLowestRecallAt10 | None


class HealthIndexesFaultyItem(TypedDict):
    collection: str
    fault: str


class HealthIndexesLowestRecallAt10(TypedDict):
    collection: str
    recall: float
    filtered_recall: float | None


class HealthLeftOutItem(TypedDict):
    collection: str
    documents: int


class HealthSetAside(TypedDict):
    """Documents of all collections that the engine cannot take; absent when there are none."""

    documents: int
    first: list[HealthSetAsideFirstItem]


class Limits(TypedDict):
    requests_per_second: NotRequired[float | None]
    burst: NotRequired[int | None]
    concurrent: NotRequired[int | None]
    documents: NotRequired[int | None]
    bytes: NotRequired[int | None]
    embedded_tokens_per_day: NotRequired[int | None]
    chats_per_day: NotRequired[int | None]


class ListAuditEntriesAnswer(TypedDict):
    entries: list[AuditEntry]
    warnings: NotRequired[list[str]]


class ListBackupsAnswer(TypedDict):
    backups: list[Backup]
    warnings: NotRequired[list[str]]


class ListKeysAnswer(TypedDict):
    keys: list[ApiKey]
    warnings: NotRequired[list[str]]


class ListSettingsAnswer(TypedDict):
    settings: list[ListSettingsAnswerSetting]
    warnings: NotRequired[list[str]]


class ListSettingsAnswerSetting(TypedDict):
    name: str
    value: str | None
    default: str | None
    origin: Literal["default", "environment", "file"]
    secret: bool


class ModelHealth(TypedDict):
    """A model of the service as it was last seen."""

    status: Literal["healthy", "degraded", "unhealthy", "unknown"]
    provider: NotRequired[str]
    age_seconds: NotRequired[float]
    error: NotRequired[str]


class Myself(TypedDict):
    id: str
    name: str
    kind: Literal["key", "user", "bootstrap", "open"]
    scopes: list[Scope]
    collections: list[str] | None
    where: dict[str, Any] | None
    expires_at: str | None
    warnings: NotRequired[list[str]]


class NewApiKeyMade(TypedDict):
    id: str
    name: str
    scopes: list[Scope]
    collections: list[str] | None
    where: dict[str, Any] | None
    limits: Limits
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    warnings: NotRequired[list[str]]
    key: str


class ProtectedResource(TypedDict):
    resource: str
    authorization_servers: list[str]
    bearer_methods_supported: list[Literal["header"]]
    resource_name: str
    scopes_supported: NotRequired[list[str]]


class Reembedding(TypedDict):
    collection: str
    status: Literal["running", "failed", "complete"]
    connection: str | None
    model: str | None
    from_connection: str | None
    from_model: str | None
    documents: int
    documents_done: int
    error: str | None
    old_vectors_kept: bool
    can_go_back: bool


class RequestLatencies(TypedDict):
    requests: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None


class RevokeKeyAnswer(TypedDict):
    status: Literal["revoked"]
    id: str
    warnings: NotRequired[list[str]]


class ShortHealth(TypedDict):
    """What anybody may know who is no administrator."""

    status: Literal["healthy", "degraded", "unhealthy"]
    healthy: bool
    service: Literal["rag-wrapper"]
    version: str
    timestamp: str


class GetRecentRequestsAnswerMinute(RequestLatencies):
    minute: str
    by_kind: dict[str, RequestLatencies]


class HealthIndexesRebuildingItem(Rebuild):
    collection: str


class HealthSetAsideFirstItem(SetAside):
    collection: str


class HealthStandingStillItem(Standstill):
    collection: str


Scope: TypeAlias = Literal["read", "write", "manage", "chat", "connect", "metrics", "admin"]
