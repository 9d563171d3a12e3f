"""Bodies of `/api/connections`, and its answers as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from marshmallow import ValidationError, fields, post_load, validate

from schemas.connections import (
    HEALTHY,
    KINDS,
    CollectionInfo,
    Connection,
    Fault,
    HealthReport,
    Look,
    ModelInfo,
    ProviderDescription,
    ShownConnection,
    Stage,
    TestReport,
)
from schemas.wire.body import Body
from schemas.wire.checked_fields import Flag, ownership
from schemas.wire.connecting.provider_forms import form_choices, form_fields, rendered_schema
from schemas.wire.fields import Count, Text

MAX_CONNECTIONS_PAGE = 1000

Json = dict[str, Any]


class ConfigObject(fields.Field[dict[str, Any]]):
    """A configuration as it is; the provider's schema judges its content."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValidationError("must be an object")
        return value


def _kind(**options: Any) -> Text:
    return Text(data_key="type", validate=validate.OneOf(KINDS), **options)


class NewConnection(Body):
    id = Text(required=True)
    kind = _kind(required=True)
    provider = Text(required=True)
    display_name = Text(load_default=None)
    config = ConfigObject(load_default=dict)
    shared = Flag(load_default=False)


class ChangedConnection(Body):
    """A change that keeps what it leaves out, except in `config`, where it keeps only secrets. Only what says whether
    the connection is the service's chat model may leave `config` out."""

    kind = _kind(load_default=None)
    provider = Text(load_default=None)
    display_name = Text(load_default=None)
    config = ConfigObject(load_default=None)
    shared = Flag(load_default=None)
    chat_model = Flag(load_default=None)

    @post_load
    def _says_something(self, loaded: Json, **_: Any) -> Json:
        if loaded["config"] is None and loaded["chat_model"] is None:
            raise ValidationError("is required", "config")
        return loaded


class TypedCandidate(Body):
    """A connection that need not exist: a form, complete or not, whose type is in the path."""

    provider = Text(required=True)
    config = ConfigObject(load_default=dict)
    changes = Text(load_default=None)


class Candidate(TypedCandidate):
    """A candidate that names its type."""

    kind = _kind(required=True)


class TriedCandidate(Candidate):
    """A candidate to try out, whose stages may be told as they end."""

    streamed = Flag(data_key="stream", load_default=False)


class TriedTypedCandidate(TypedCandidate):
    """The same with the type in the path."""

    streamed = Flag(data_key="stream", load_default=False)


class ConnectionsPage(Body):
    """The part of all connections that a query string asks for."""

    limit = Count(least=1, most=MAX_CONNECTIONS_PAGE, in_text=True, load_default=None)
    cursor = Text(load_default=None)


class ConnectionsHealth(ConnectionsPage):
    """The connections whose health a query string asks for: a part of all, or one."""

    connection_id = Text(data_key="id", load_default=None)


class Kind(Body):
    """The kind that tells connections or providers of one name apart."""

    kind = Text(data_key="type", load_default=None)


NEW_CONNECTION, CHANGED_CONNECTION = NewConnection(), ChangedConnection()
CANDIDATE, TYPED_CANDIDATE = Candidate(), TypedCandidate()
TRIED_CANDIDATE, TRIED_TYPED_CANDIDATE = TriedCandidate(), TriedTypedCandidate()
CONNECTIONS_ARGUMENTS, HEALTH_ARGUMENTS, KIND_ARGUMENTS = ConnectionsPage(), ConnectionsHealth(), Kind()


def providers(described: Mapping[str, Sequence[ProviderDescription]]) -> Json:
    return {kind: [provider(each) for each in found] for kind, found in described.items()}


def provider(described: ProviderDescription) -> Json:
    said: Json = {
        "id": described.id,
        "type": described.kind,
        "capabilities": described.capabilities,
        "display_name": described.display_name,
        "description": described.description,
        "limits": described.limits,
        "viable": described.reason is None,
        "schema": None if described.schema is None else provider_form(described),
    }
    return said if described.reason is None else {**said, "reason": described.reason}


def provider_form(described: ProviderDescription) -> Json:
    """Spell the form for a provider's connections. The provider must have a schema."""
    schema = described.schema or {}
    return {
        "provider": described.id,
        "type": described.kind,
        "display_name": described.display_name,
        "description": described.description,
        "fields": form_fields(schema),
        "choices": form_choices(schema),
        "capabilities": described.capabilities,
        "json_schema": rendered_schema(schema),
    }


def connection(shown: ShownConnection, chat_model: str | None) -> Json:
    """Spell a connection; `chat_model` is the id of the one that answers."""
    return {
        "id": shown.id,
        "type": shown.kind,
        "provider": shown.provider,
        "display_name": shown.display_name,
        "config": shown.config,
        "secrets": shown.secrets,
        "stored_secrets": list(shown.stored_secrets),
        "origin": shown.origin,
        "chat_model": shown.id == chat_model,
        **ownership(shown.of),
    }


def connections_page(page: Iterable[ShownConnection], next_cursor: str | None, chat_model: str | None) -> Json:
    return {"connections": [connection(each, chat_model) for each in page], "next_cursor": next_cursor}


def deleted_connection(connection_id: str) -> Json:
    return {"status": "deleted", "id": connection_id}


def judgement(wrong: Sequence[Fault], warnings: Iterable[Fault], unknown: Iterable[str]) -> Json:
    """Spell the faults of a form; `unknown` are sentences about names of the request that nothing reads."""
    return {
        "valid": not wrong,
        "errors": [asdict(fault) for fault in wrong],
        "warnings": [
            *(asdict(warning) for warning in warnings),
            *({"pointer": "", "message": sentence} for sentence in unknown),
        ],
    }


def test_report(report: TestReport) -> Json:
    said: Json = {
        "success": report.success,
        "provider": report.provider,
        "type": report.kind,
        "duration": report.duration_ms,
        "stages": [_stage(stage) for stage in report.stages],
    }
    if not report.success:
        return said | {"error": report.message, "message": report.message, "errorType": report.error_type}
    said |= {"method": report.method, "details": report.details}
    if report.collections is not None:
        said |= {"collectionCount": report.collections_count, "collections": list(report.collections)}
    return said


def test_event(part: Stage | TestReport) -> Json:
    """Spell a part of a test that is told as it goes on: a stage that has ended, and at the end what `test_report`
    spells beside `done`."""
    return {"done": True, **test_report(part)} if isinstance(part, TestReport) else {"stage": _stage(part)}


def _stage(stage: Stage) -> Json:
    said = asdict(stage)
    wrong = said.pop("faults")
    return said | {"errors": list(wrong)} if wrong else said


def discovered_models(provider_id: str, models: Sequence[ModelInfo]) -> Json:
    return {"provider": provider_id, "count": len(models), "models": [_model(each) for each in models]}


def _model(model: ModelInfo) -> Json:
    said = asdict(model)
    said["maxTokens"] = said.pop("max_tokens")
    return said


def connection_health(connection: Connection, report: HealthReport, history: Sequence[Look]) -> Json:
    said = {name: value for name, value in asdict(report).items() if name != "error" or value is not None}
    return {"id": connection.id, "type": connection.kind, **said, "history": [asdict(each) for each in history]}


def connections_health(
    connections: Sequence[Connection],
    reports: Sequence[HealthReport],
    histories: Mapping[str, Sequence[Look]],
    next_cursor: str | None,
) -> Json:
    healthy = sum(report.status == HEALTHY for report in reports)
    return {
        "connections": [
            connection_health(each, report, histories[each.id])
            for each, report in zip(connections, reports, strict=True)
        ],
        "healthy": healthy,
        "unhealthy": len(connections) - healthy,
        "next_cursor": next_cursor,
    }


def connection_collections(
    connection_id: str, collections: Iterable[CollectionInfo], redact: Callable[[Any], Any]
) -> Json:
    """Spell the collections behind a connection, with what its placeholders stand for taken out by `redact`."""
    return {"connection": connection_id, "collections": redact([asdict(each) for each in collections])}
