"""`/mcp`: MCP's streamable HTTP. Each request is answered by itself, in JSON: workers share nothing, no stream holds a
thread.

MCP's own library is imported with the first request.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flask import Blueprint, Flask, Response, current_app, request

from retrieval.tools import Tool
from schemas.errors import ForbiddenOriginError, UnsupportedMediaError
from schemas.settings import WrapperSettings
from wrapper.bodies import JSON, read_body
from wrapper.requests_in import takes

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

blueprint = Blueprint("mcp", __name__)


class Endpoint:
    """The server of one process. Pages of this machine, of the host that the service listens on, and of the origins in
    the settings may call it."""

    def __init__(self, tools: Mapping[str, Tool], settings: WrapperSettings, *, may_write: bool) -> None:
        self._tools = tools
        self._settings = settings
        self._may_write = may_write

    @cached_property
    def server(self) -> Server[Any]:
        from interfaces.mcp.server import in_place, tool_server

        return tool_server(lambda: self._tools, may_write=self._may_write, run=in_place)

    def check_origin(self, origin: str | None) -> None:
        """Raises ForbiddenOriginError: a page whose name was made to lead here must not use the tools (DNS rebinding).
        Programs that are no browsers send no origin."""
        if origin is None or {origin, "*"} & set(self._settings.cors_origins):
            return
        host = _host(origin)
        if not (host == self._settings.host or _is_loopback(host)):
            raise ForbiddenOriginError(origin)


def init_app(app: Flask, endpoint: Endpoint) -> None:
    app.extensions["rag.mcp"] = endpoint
    app.register_blueprint(blueprint)


@blueprint.post("/mcp")
@takes(own_rules=True)
def mcp() -> Response:
    endpoint: Endpoint = current_app.extensions["rag.mcp"]
    endpoint.check_origin(request.headers.get("Origin"))
    if request.mimetype != JSON:
        raise UnsupportedMediaError("The body must be application/json", allowed=[JSON])
    # Imported late: it takes a second, which only those should pay for who use it.
    from interfaces.mcp.exchange import exchange

    status, headers, content = exchange(endpoint.server, dict(request.headers), read_body())
    return Response(content, status, headers)


def _host(origin: str) -> str:
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
