"""The interface of `/mcp` with the tools that the conformance suite calls by name, which the product does not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

from flask import Flask, request
from werkzeug.serving import make_server

from interfaces.mcp.streamable import Endpoint, blueprint
from interfaces.tool import Tool
from schemas.access.callers import ANYBODY, Scope, acting_as
from schemas.access.table import TOOLS as ALL_TOOLS
from schemas.access.table import Access
from schemas.errors import RagError
from schemas.settings import WrapperSettings
from wrapper.web import error_statuses
from wrapper.web.bodies import finish_parsing
from wrapper.web.hosts_and_origins import AllowedHostsAndOrigins
from wrapper.web.parsing_budget import arriving_budget_of, budget_of
from wrapper.web.route_table import RouteTable

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
ADDRESS = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}},
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


def _fail(_: dict[str, Any]) -> dict[str, Any]:
    raise RagError("This tool intentionally returns an error for testing")


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("test_simple_text", "Answers.", NOTHING, NOTHING, lambda _: {"text": "A simple text for testing."}, dict),
        Tool("test_error_handling", "Fails.", NOTHING, NOTHING, _fail, dict),
        Tool("json_schema_2020_12_tool", "Takes what JSON Schema can say.", ADDRESS, NOTHING, dict, dict),
    )
}


def _as_anybody(application: Any) -> Any:
    """Return a WSGI application that works for anybody who asks."""

    def asked(environ: Any, start: Any) -> Any:
        with acting_as(ANYBODY):
            return application(environ, start)

    return asked


@contextmanager
def examined_server() -> Iterator[str]:
    """Serve the interface for the length of the block, and yield its address."""
    # These are no tools of the service: nobody else has to know what they ask for.
    access = {name: Access(Scope.READ) for name in TOOLS}
    ALL_TOOLS.update(access)
    settings = WrapperSettings()
    app = Flask("examined")
    app.config["MAX_BODY_BYTES"] = settings.max_body_mb << 20
    error_statuses.init_app(app)
    allowed = AllowedHostsAndOrigins(settings)
    app.before_request(lambda: allowed.check(request))
    app.extensions["rag.arriving"] = arriving_budget_of(settings.max_body_mb << 20)
    app.extensions["rag.parsing"] = budget_of(settings.max_body_mb << 20)
    app.teardown_request(lambda _: finish_parsing())
    app.extensions["rag.routes"] = RouteTable()
    app.extensions["rag.mcp"] = Endpoint(TOOLS, may_write=True)
    app.register_blueprint(blueprint)
    server = make_server("127.0.0.1", 0, _as_anybody(app), threaded=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        for name in access:
            del ALL_TOOLS[name]
