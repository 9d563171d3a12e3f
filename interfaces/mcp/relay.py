"""An MCP server that passes requests on to a running service: `rag-wrapper mcp` beside `rag-wrapper serve`."""

from __future__ import annotations

from itertools import count
from typing import Any, TypeVar

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from interfaces.mcp.server import server_of
from providers.outbound.json_client import JsonClient
from providers.outbound.network import Network
from providers.rag_wrapper.dialect import ONCE, WrapperDialect

Result = TypeVar("Result", bound=types.Result)
HEADERS = {"MCP-Protocol-Version": LATEST_HANDSHAKE_VERSION, "Accept": "application/json, text/event-stream"}


def relay_server(service_url: str, network: Network, api_key: str | None = None) -> Server[Any]:
    """Return a server of the service's tools, including those that write only where the service offers them. Raise
    InvalidInputError for a malformed URL."""
    # A note that is sent again would be noted twice.
    dialect = WrapperDialect(service_url.rstrip("/"))
    service = JsonClient(service_url, dialect, network=network, api_key=api_key, retry=ONCE)
    numbers = count(1)

    def ask(method: str, params: dict[str, Any], kind: type[Result]) -> Result:
        message = {"jsonrpc": "2.0", "id": next(numbers), "method": method, "params": params}
        answer = service.call("POST", "/mcp", message, headers=HEADERS)
        with service.reading():
            if "error" in answer:
                raise MCPError(answer["error"]["code"], answer["error"]["message"])
            return kind.model_validate(answer["result"])

    def call_tool(asked: types.CallToolRequestParams) -> types.CallToolResult:
        given = {"name": asked.name, "arguments": asked.arguments or {}}
        return ask("tools/call", given, types.CallToolResult)

    return server_of(lambda: ask("tools/list", {}, types.ListToolsResult), call_tool)
