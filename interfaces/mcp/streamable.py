"""`/mcp`: MCP's streamable HTTP.

Each request is answered by itself, in JSON: workers share nothing, and no stream holds a thread. MCP's own library is
imported with the first request.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response, current_app, request

from interfaces.recorded_tools import noted_tools
from interfaces.tool import Tool, needed_for
from schemas.access.callers import Kind, current
from schemas.access.credentials_in_text import Cleaner, without_credentials
from schemas.errors import InvalidInputError, ScopeMissingError
from wrapper.audit.noted import note_status
from wrapper.web.audited import calls_tool
from wrapper.web.bodies import read_body
from wrapper.web.error_statuses import status_of
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import change_lane
from wrapper.web.route_table import declare

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

blueprint = Blueprint("mcp", __name__)


class Endpoint:
    """Holds the MCP server of one process. It offers the tools without those that write, unless it `may_write`, and
    what it says of errors is cleaned by `clean`."""

    def __init__(
        self, tools: Mapping[str, Tool[Any]], *, may_write: bool, clean: Cleaner = without_credentials
    ) -> None:
        self.clean = clean
        self._tools = noted_tools({name: tool for name, tool in tools.items() if may_write or tool.read_only})

    @cached_property
    def server(self) -> Server[Any]:
        from interfaces.mcp.server import in_place, tool_server

        return tool_server(self._tools, run=in_place)

    def take_place(self, tool: str, arguments: dict[str, Any]) -> None:
        """Note the tool that the request calls, and move it to the lane of other services when the tool waits for one.

        Raises ScopeMissingError for users of an identity provider, whose clients then ask for the scope; to a key that
        lacks it there is no such tool.
        """
        found = self._tools.get(tool)
        if found is None:
            return
        try:
            calls_tool(tool, needed_for(tool))
        except ScopeMissingError:
            if current().kind is Kind.USER:
                raise
            note_status(status_of(ScopeMissingError))
            return
        note_status(status_of(InvalidInputError))  # unless the tool runs: the protocol or its schema may refuse it
        if found.waits(arguments):
            change_lane(Lane.SERVICE)


@blueprint.post("/mcp")
@declare(Lane.EMBEDDING, own_rules=True)
def mcp() -> Response:
    endpoint: Endpoint = current_app.extensions["rag.mcp"]
    # Imported late: the import takes a second, which a service without MCP clients should not pay.
    from interfaces.mcp.exchange import cleaned_answer, exchange

    status, headers, content = exchange(endpoint.server, dict(request.headers), read_body(), endpoint.take_place)
    return Response(cleaned_answer(content, endpoint.clean), status, headers)
