"""`/tools`: the tools of contract *context* over HTTP. The answer is the tool's own, as it spells it."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request
from werkzeug.exceptions import MethodNotAllowed

from interfaces.tool import Tool, ToolNotFoundError, needed_for
from interfaces.web.current_request import layers
from schemas.errors import InvalidInputError
from schemas.wire.context import described_tool, listed_tools
from schemas.wire.error_bodies import tool_error_body
from schemas.wire.fields import where_from_text, whole_number
from schemas.wire.json_in import decode
from wrapper.web import error_statuses
from wrapper.web.audited import calls_tool
from wrapper.web.bodies import decode_json, json_response, read_body
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import store, unknown, write_options
from wrapper.web.responses import respond
from wrapper.web.route_table import declare

blueprint = Blueprint("tools", __name__, url_prefix="/tools")
error_statuses.spell_errors(blueprint, tool_error_body, defects_too=True)


@blueprint.get("")
@declare(Lane.READ)
def list_tools() -> Response:
    return json_response(listed_tools(_described(tool) for tool in layers().tools.values()))


@blueprint.post("/<tool>")
@declare(Lane.EMBEDDING)
def call(tool: str) -> Response:
    called, content = _tool(tool), read_body()
    options = write_options(content)
    given = called.check(_arguments(tool, decode_json(content)), unknown())
    if called.kept_as is None or called.writes_to is None:
        return json_response(called.spell(called.run(given)))
    written = store().once(called.kept_as, options, lambda: called.run(given), called.writes_to)
    return respond(written, called.spell)


@blueprint.get("/<tool>")
@declare(Lane.EMBEDDING, own_rules=True)
def call_by_query_string(tool: str) -> Response:
    called = _tool(tool)
    if not called.read_only:
        raise MethodNotAllowed(valid_methods=["POST"])
    given = {name: _value(called, name, text) for name, text in request.args.items()}
    return json_response(called.spell(called.run(called.check(given, unknown()))))


def _tool(name: str) -> Tool[Any]:
    """Return the tool of that name. Raises ToolNotFoundError, and ScopeMissingError when it is not the caller's."""
    try:
        found = layers().tools[name]
    except KeyError:
        raise ToolNotFoundError(name) from None
    calls_tool(name, needed_for(name))
    return found


def _value(tool: Tool[Any], name: str, text: str) -> Any:
    kind = tool.input_schema.get("properties", {}).get(name, {}).get("type")
    if kind == "array":
        return text.split(",")
    if kind == "object":  # a filter
        where_from_text(text, name)
        return decode(text, name)
    whole = whole_number(text, in_text=True) if kind == "integer" else None
    return text if whole is None else whole


def _arguments(name: str, body: Any) -> Any:
    """Return the arguments of a body, which may have them under `arguments` as MCP does: no tool has an argument of
    that name."""
    if not isinstance(body, dict):
        raise InvalidInputError("The body must be an object", code="invalid_body")
    if "arguments" not in body:
        return body
    if body.get("name", name) != name:
        raise InvalidInputError(f"name must be {name}, as in the path", code="invalid_field", field="name")
    return body["arguments"]


def _described(tool: Tool[Any]) -> dict[str, Any]:
    return described_tool(tool.name, tool.description, tool.input_schema, tool.output_schema, read_only=tool.read_only)
