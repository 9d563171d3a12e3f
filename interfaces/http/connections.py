"""`/api/connections`: what a config-builder UI discovers, describes, configures, tests and watches (seed 003)."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any, cast

from flask import Blueprint, Response
from werkzeug.routing import BaseConverter

from interfaces.http.layers import layers
from providers.base import RagProvider
from registry.connections import RESERVED_IDS
from registry.env_vars import listed, suggested, validated
from registry.registry import Entry
from schemas.configuration import form_fields
from schemas.connections import HEALTHY, KINDS, Connection, HealthReport, ModelInfo, Stage, TestReport
from schemas.errors import NotFoundError
from schemas.wire_connections import (
    CANDIDATE,
    CHANGED_CONNECTION,
    CONNECTIONS_ARGUMENTS,
    ENV_VAR_NAMES,
    ENV_VARS_ARGUMENTS,
    KIND_ARGUMENTS,
    NEW_CONNECTION,
    SUGGESTION_ARGUMENTS,
    TYPED_CANDIDATE,
)
from wrapper.bodies import json_response
from wrapper.lanes import Lane
from wrapper.requests_in import arguments, body, unknown
from wrapper.route_table import declare


class ConnectionId(BaseConverter):
    """Any id that a connection can have: the routes of connections are none."""

    regex = rf"(?!(?:{'|'.join(map(re.escape, RESERVED_IDS))})\Z)[^/]+"


blueprint = Blueprint("connections", __name__, url_prefix="/api/connections")


@blueprint.get("/providers")
@declare(Lane.READ)
def list_providers() -> Response:
    registry = layers().registry
    return json_response({kind: [_provider(entry) for entry in registry.entries(kind)] for kind in KINDS})


@blueprint.get("/providers/<provider>")
@declare(Lane.READ, query=KIND_ARGUMENTS)
def show_provider(provider: str) -> Response:
    return json_response(_provider(layers().registry.entry(provider, arguments()["kind"])))


@blueprint.get("/providers/<provider>/schema")
@declare(Lane.READ, query=KIND_ARGUMENTS)
def show_schema(provider: str) -> Response:
    return json_response(_schema(layers().registry.entry(provider, arguments()["kind"])))


@blueprint.post("/validate")
@declare(Lane.READ, body=CANDIDATE)
def validate() -> Response:
    asked = body()
    wrong, warnings = layers().connections.judge(asked["kind"], asked["provider"], asked["config"])
    return json_response(
        {
            "valid": not wrong,
            "errors": [asdict(fault) for fault in wrong],
            "warnings": [
                *(asdict(warning) for warning in warnings),
                *({"pointer": "", "message": sentence} for sentence in unknown().take()),
            ],
        }
    )


@blueprint.post("/test")
@declare(Lane.SERVICE, body=CANDIDATE)
def test() -> Response:
    asked = body()
    return _tested(layers().connections.test(asked["kind"], asked["provider"], asked["config"]))


@blueprint.post("/rag/test", defaults={"kind": "rag"})
@blueprint.post("/embedding/test", defaults={"kind": "embedding"})
@blueprint.post("/llm/test", defaults={"kind": "llm"})
@declare(Lane.SERVICE, body=TYPED_CANDIDATE)
def test_kind(kind: str) -> Response:
    asked = body()
    return _tested(layers().connections.test(kind, asked["provider"], asked["config"]))


@blueprint.post("/embedding/discovery/models", defaults={"kind": "embedding"})
@blueprint.post("/llm/discovery/models", defaults={"kind": "llm"})
@declare(Lane.SERVICE, body=TYPED_CANDIDATE)
def discover_models(kind: str) -> Response:
    asked = body()
    report = layers().connections.test(kind, asked["provider"], asked["config"], for_models=True)
    if report.models is None:
        return _tested(report)
    models = [_model(each) for each in report.models]
    return json_response({"provider": report.provider, "count": len(models), "models": models})


@blueprint.get("/env-vars")
@declare(Lane.READ, query=ENV_VARS_ARGUMENTS)
def env_vars() -> Response:
    variables = listed(layers().connections.placeholders)
    return json_response({"variables": variables, "count": len(variables)})


@blueprint.post("/env-vars/validate")
@declare(Lane.READ, body=ENV_VAR_NAMES)
def validate_env_vars() -> Response:
    asked = body()
    placeholders = layers().connections.placeholders
    judged = validated(placeholders, [*asked["names"], *placeholders.names(asked["text"])])
    disallowed = [each["name"] for each in judged if not each["allowed"]]
    missing = [each["name"] for each in judged if each["allowed"] and not each["set"]]
    said = [f"The variable {name} is not among those allowed here" for name in disallowed]
    said += [f"The variable {name} is not set" for name in missing]
    return json_response(
        {
            "valid": not said,
            "variables": judged,
            "warnings": [*said, *unknown().take()],
            "missingVars": missing,
            "disallowedVars": disallowed,
        }
    )


@blueprint.get("/env-vars/suggestions")
@declare(Lane.READ, query=SUGGESTION_ARGUMENTS)
def suggest_env_vars() -> Response:
    asked = arguments()
    provider, field = asked["provider"], asked["field"]
    fitting = suggested(layers().connections.placeholders, provider, field, layers().registry.schema(provider))
    return json_response({"provider": provider, "field": field, "suggestions": fitting})


@blueprint.get("")
@declare(Lane.READ, query=CONNECTIONS_ARGUMENTS)
def list_connections() -> Response:
    connections = layers().connections
    page, next_cursor = connections.page(**arguments())
    return json_response({"connections": [connections.shown(each) for each in page], "next_cursor": next_cursor})


@blueprint.post("")
@declare(Lane.WRITE, body=NEW_CONNECTION)
def create() -> Response:
    connections = layers().connections
    made = connections.create(Connection(**body()))
    return json_response(connections.shown(made), 201)


@blueprint.get("/<connection_id:connection_id>")
@declare(Lane.READ)
def show(connection_id: str) -> Response:
    connections = layers().connections
    return json_response(connections.shown(connections.find(connection_id)))


@blueprint.put("/<connection_id:connection_id>")
@declare(Lane.WRITE, body=CHANGED_CONNECTION)
def change(connection_id: str) -> Response:
    connections = layers().connections
    changed = connections.change(connection_id, **body())
    return json_response(connections.shown(changed))


@blueprint.delete("/<connection_id:connection_id>")
@declare(Lane.WRITE)
def delete(connection_id: str) -> Response:
    layers().connections.delete(connection_id)
    return json_response({"status": "deleted", "id": connection_id})


@blueprint.get("/health")
@declare(Lane.SERVICE, query=CONNECTIONS_ARGUMENTS)
def health_of_all() -> Response:
    known, next_cursor = layers().connections.page(**arguments())
    reports = layers().health.of_all(known)
    healthy = sum(report.status == HEALTHY for report in reports)
    return json_response(
        {
            "connections": [_health(*each) for each in zip(known, reports, strict=True)],
            "healthy": healthy,
            "unhealthy": len(known) - healthy,
            "next_cursor": next_cursor,
        }
    )


@blueprint.get("/<connection_id:connection_id>/health")
@declare(Lane.SERVICE)
def health(connection_id: str) -> Response:
    connection = layers().connections.find(connection_id)
    return json_response(_health(connection, layers().health.of(connection)))


@blueprint.get("/<connection_id:connection_id>/collections")
@declare(Lane.SERVICE)
def collections(connection_id: str) -> Response:
    provider = cast(RagProvider, layers().connections.open(connection_id, "rag"))
    found = [asdict(each) for each in provider.collections()]
    return json_response({"connection": connection_id, "collections": provider.context.redactor(found)})


def _provider(entry: Entry) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": entry.id, "type": entry.kind, "capabilities": entry.capabilities}
    provider = entry.provider
    shown |= {
        "display_name": provider.display_name if provider else entry.id,
        "description": provider.description if provider else "",
        "limits": dict(provider.limits) if provider else {},
        "viable": entry.viable,
        "schema": _schema(entry) if provider else None,
    }
    return shown if entry.viable else {**shown, "reason": entry.reason}


def _schema(entry: Entry) -> dict[str, Any]:
    if entry.provider is None:
        raise NotFoundError(f"Provider '{entry.id}' has no schema: {entry.reason}", provider=entry.id)
    schema = entry.provider.connection_schema()
    return {
        "provider": entry.id,
        "type": entry.kind,
        "display_name": entry.provider.display_name,
        "description": entry.provider.description,
        "fields": form_fields(schema),
        "capabilities": entry.capabilities,
        "json_schema": schema,
    }


def _health(connection: Connection, report: HealthReport) -> dict[str, Any]:
    said = {name: value for name, value in asdict(report).items() if name != "error" or value is not None}
    return {"id": connection.id, "type": connection.kind, **said}


def _tested(report: TestReport) -> Response:
    said: dict[str, Any] = {
        "success": report.success,
        "provider": report.provider,
        "type": report.kind,
        "duration": report.duration_ms,
        "stages": [_stage(stage) for stage in report.stages],
    }
    if not report.success:
        failed = {"error": report.message, "message": report.message, "errorType": report.error_type}
        return json_response(said | failed, 400)
    said |= {"method": report.method, "details": report.details}
    if report.collections is not None:
        said |= {"collectionCount": report.collections_count, "collections": list(report.collections)}
    return json_response(said)


def _model(model: ModelInfo) -> dict[str, Any]:
    said = asdict(model)
    said["maxTokens"] = said.pop("max_tokens")
    return said


def _stage(stage: Stage) -> dict[str, Any]:
    said = asdict(stage)
    wrong = said.pop("faults")
    return said | {"errors": list(wrong)} if wrong else said
