"""`/tools`: seed 000's tools over HTTP. The answer is what the tool returns; `error` of a failure is the sentence, and
`fallback` says whether it was ours."""

from __future__ import annotations

from typing import Any

import structlog
from flask import Blueprint, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from interfaces.http.layers import layers
from retrieval.tools import Tool, ToolNotFoundError
from schemas.errors import InvalidInputError, RagError
from schemas.wire import NUMERAL
from wrapper import errors
from wrapper.bodies import decode_json, json_response, read_body
from wrapper.lanes import Lane
from wrapper.requests_in import respond, store, unknown, write_options
from wrapper.route_table import declare

blueprint = Blueprint("tools", __name__, url_prefix="/tools")
log = structlog.get_logger(__name__)


@blueprint.errorhandler(RagError)
def with_fallback(error: RagError) -> Response:
    status = errors.status_of(error)
    response = errors.respond(error)
    response.set_data(json_response({**errors.body(error), "fallback": status >= 500}).get_data())
    return response


@blueprint.errorhandler(Exception)
def unexpected(error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return errors.http_error(error)
    log.exception("unexpected failure of a tool", error=repr(error))
    return with_fallback(RagError("Internal server error"))


@blueprint.get("")
@declare(Lane.READ)
def list_tools() -> Response:
    return json_response({"tools": [_described(tool) for tool in layers().tools.values()]})


@blueprint.post("/<tool>")
@declare(Lane.EMBEDDING)
def call(tool: str) -> Response:
    called, content = _tool(tool), read_body()
    options = write_options(content)
    given = called.check(_arguments(tool, decode_json(content)), unknown())
    if called.read_only:
        return json_response(called.run(given))
    return respond(store().once(options, lambda: called.run(given), called.writes_to))


@blueprint.get("/<tool>")
@declare(Lane.EMBEDDING, own_rules=True)
def call_by_query_string(tool: str) -> Response:
    called = _tool(tool)
    if not called.read_only:
        raise MethodNotAllowed(valid_methods=["POST"])
    given = {name: _value(called, name, text) for name, text in request.args.items()}
    return json_response(called.run(called.check(given, unknown())))


def _tool(name: str) -> Tool:
    try:
        return layers().tools[name]
    except KeyError:
        raise ToolNotFoundError(name) from None


def _value(tool: Tool, name: str, text: str) -> str | int | list[str]:
    kind = tool.input_schema.get("properties", {}).get(name, {}).get("type")
    if kind == "array":
        return text.split(",")
    return int(text) if kind == "integer" and NUMERAL.fullmatch(text) else text


def _arguments(name: str, body: Any) -> Any:
    """A body with a field `arguments` holds them there, as MCP writes a call: no tool has an argument of that name."""
    if not isinstance(body, dict):
        raise InvalidInputError("The body must be an object", code="invalid_body")
    if "arguments" not in body:
        return body
    if body.get("name", name) != name:
        raise InvalidInputError(f"name must be {name}, as in the path", code="invalid_field", field="name")
    return body["arguments"]


def _described(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": {"readOnlyHint": tool.read_only},
    }
