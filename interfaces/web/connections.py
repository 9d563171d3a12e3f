"""`/api/connections`: providers and connections, discovered, described, configured, tested and watched as a form needs
it (contract *storage*)."""

from __future__ import annotations

import re
from typing import Any, cast

from flask import Blueprint, Response
from werkzeug.routing import BaseConverter

from interfaces.health import with_uploads
from interfaces.web.current_request import layers
from interfaces.web.event_streams import event_stream
from providers.base import RagProvider
from registry.candidates import Candidate
from registry.connection_checks import RESERVED_IDS
from registry.placeholders.env_vars import judged, suggested
from schemas.access.turns import waiting_for
from schemas.connections import KINDS, Connection
from schemas.errors import InvalidInputError
from schemas.wire.connecting import connections as wire
from schemas.wire.connecting.env_vars import (
    ENV_VAR_NAMES,
    ENV_VARS_ARGUMENTS,
    SUGGESTION_ARGUMENTS,
    available_env_vars,
    judged_env_vars,
    suggested_env_vars,
)
from schemas.wire.error_bodies import error_body
from wrapper.web.bodies import json_response
from wrapper.web.callers import unwanted_watch
from wrapper.web.error_statuses import error_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, body, unknown
from wrapper.web.route_table import declare


class ConnectionId(BaseConverter):
    """Matches the id of a connection in a path, but not the words that name routes."""

    regex = rf"(?!(?:{'|'.join(map(re.escape, RESERVED_IDS))})\Z)[^/]+"


blueprint = Blueprint("connections", __name__, url_prefix="/api/connections")


@blueprint.get("/providers")
@declare(Lane.READ)
def list_providers() -> Response:
    registry = layers().registry
    described = {kind: [entry.described() for entry in registry.entries(kind)] for kind in KINDS}
    return json_response(wire.providers(described))


@blueprint.get("/providers/<provider>")
@declare(Lane.READ, query=wire.KIND_ARGUMENTS)
def show_provider(provider: str) -> Response:
    return json_response(wire.provider(layers().registry.entry(provider, arguments()["kind"]).described()))


@blueprint.get("/providers/<provider>/schema")
@declare(Lane.READ, query=wire.KIND_ARGUMENTS)
def show_schema(provider: str) -> Response:
    return json_response(wire.provider_form(layers().registry.form(provider, arguments()["kind"])))


@blueprint.post("/validate")
@declare(Lane.READ, body=wire.CANDIDATE)
def validate() -> Response:
    asked = body()
    wrong, warnings = layers().candidates.judge(Candidate(**asked))
    return json_response(wire.judgement(wrong, warnings, unknown().take()))


@blueprint.post("/test")
@declare(Lane.SERVICE, body=wire.TRIED_CANDIDATE)
def test() -> Response:
    return _tried(**body())


@blueprint.post("/rag/test", defaults={"kind": "rag"})
@blueprint.post("/embedding/test", defaults={"kind": "embedding"})
@blueprint.post("/llm/test", defaults={"kind": "llm"})
@blueprint.post("/rerank/test", defaults={"kind": "rerank"})
@declare(Lane.SERVICE, body=wire.TRIED_TYPED_CANDIDATE)
def test_kind(kind: str) -> Response:
    return _tried(kind=kind, **body())


@blueprint.post("/embedding/discovery/models", defaults={"kind": "embedding"})
@blueprint.post("/llm/discovery/models", defaults={"kind": "llm"})
@declare(Lane.SERVICE, body=wire.TYPED_CANDIDATE)
def discover_models(kind: str) -> Response:
    report = layers().candidates.test(Candidate(kind, **body()), for_models=True)
    if report.models is None:  # which is no list of models, whatever else it is
        return error_response(InvalidInputError(report.message or ""), lambda _: wire.test_report(report))
    return json_response(wire.discovered_models(report.provider, report.models))


@blueprint.get("/env-vars")
@declare(Lane.READ, query=ENV_VARS_ARGUMENTS)
def env_vars() -> Response:
    return json_response(available_env_vars(layers().connections.placeholders.available()))


@blueprint.post("/env-vars/validate")
@declare(Lane.READ, body=ENV_VAR_NAMES)
def validate_env_vars() -> Response:
    asked, placeholders = body(), layers().connections.placeholders
    names = [*asked["names"], *placeholders.names(asked["text"])]
    return json_response(judged_env_vars(judged(placeholders, names), unknown().take()))


@blueprint.get("/env-vars/suggestions")
@declare(Lane.READ, query=SUGGESTION_ARGUMENTS)
def suggest_env_vars() -> Response:
    asked = arguments()
    provider, field = asked["provider"], asked["field"]
    fitting = suggested(layers().connections.placeholders, provider, field, layers().registry.schema(provider))
    return json_response(suggested_env_vars(provider, field, fitting))


@blueprint.get("")
@declare(Lane.READ, query=wire.CONNECTIONS_ARGUMENTS)
def list_connections() -> Response:
    connections = layers().connections
    page, next_cursor = connections.page(**arguments())
    return json_response(wire.connections_page(map(connections.shown, page), next_cursor, connections.chat_model()))


@blueprint.post("")
@declare(Lane.WRITE, body=wire.NEW_CONNECTION)
def create() -> Response:
    connections, asked = layers().connections, body()
    shared = asked.pop("shared")
    made = connections.create(Connection(**asked), shared=shared)
    return json_response(_spelt(made), 201)


@blueprint.get("/<connection_id:connection_id>")
@declare(Lane.READ)
def show(connection_id: str) -> Response:
    return json_response(_spelt(layers().connections.find(connection_id)))


@blueprint.put("/<connection_id:connection_id>")
@declare(Lane.WRITE, body=wire.CHANGED_CONNECTION)
def change(connection_id: str) -> Response:
    return json_response(_spelt(layers().connections.change(connection_id, **body())))


@blueprint.delete("/<connection_id:connection_id>")
@declare(Lane.WRITE)
def delete(connection_id: str) -> Response:
    layers().connections.delete(connection_id)
    return json_response(wire.deleted_connection(connection_id))


@blueprint.get("/health")
@declare(Lane.SERVICE, query=wire.HEALTH_ARGUMENTS)
def health_of_all() -> Response:
    connections, asked = layers().connections, arguments()
    connection_id = asked.pop("connection_id")
    known, next_cursor = ([connections.find(connection_id)], None) if connection_id else connections.page(**asked)
    found, histories = layers().health.of_all(known), layers().health.history(known)
    reports = [with_uploads(layers(), *each) for each in zip(known, found, strict=True)]
    return json_response(wire.connections_health(known, reports, histories, next_cursor))


@blueprint.get("/<connection_id:connection_id>/health")
@declare(Lane.SERVICE)
def health(connection_id: str) -> Response:
    connection = layers().connections.find(connection_id)
    report = with_uploads(layers(), connection, layers().health.of(connection))
    histories = layers().health.history([connection])
    return json_response(wire.connection_health(connection, report, histories[connection.id]))


@blueprint.get("/<connection_id:connection_id>/collections")
@declare(Lane.SERVICE)
def collections(connection_id: str) -> Response:
    provider = cast(RagProvider, layers().connections.open(connection_id, "rag"))
    with waiting_for(lambda: layers().connections.elsewhere([connection_id])):
        found = provider.collections()
    return json_response(wire.connection_collections(connection_id, found, provider.context.redactor))


def _spelt(connection: Connection) -> dict[str, Any]:
    connections = layers().connections
    return wire.connection(connections.shown(connection), connections.chat_model())


def _tried(*, streamed: bool, **asked: Any) -> Response:
    candidate = Candidate(**asked)
    if not streamed:
        return json_response(wire.test_report(layers().candidates.test(candidate)))
    parts = layers().candidates.trial(candidate)
    return event_stream(parts, wire.test_event, error_body, unwanted_watch())
