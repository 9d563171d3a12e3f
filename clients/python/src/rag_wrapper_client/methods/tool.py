"""Methods of the context tools, and of MCP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rag_wrapper_client.exchanges import Exchange, Request, ask, at, change, get, json_of, read, write
from rag_wrapper_client.operations import operation
from rag_wrapper_client.wire.searching import ContextFound, ContextHealth, ContextIndexed, ContextStats, ListToolsAnswer

TimeRange = Literal["1h", "24h", "7d", "30d"]


class ToolMethods:
    @operation
    def tools(self) -> Exchange[ListToolsAnswer]:
        """List the tools, with the schemas of what they take and answer."""
        return ask(get("/tools"))

    @operation
    def call_tool(
        self, tool: str, arguments: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Exchange[dict[str, Any]]:
        """Call a tool by its name."""
        return ask(write("POST", at("/tools/{}", tool), arguments, idempotency_key=idempotency_key))

    @operation
    def context_search(self, /, query: str, **arguments: Any) -> Exchange[ContextFound]:
        """Search the context. The other arguments are those of the tool `rag_context_search`."""
        return ask(read("/tools/rag_context_search", {"query": query, **arguments}))

    @operation
    def context_index(
        self, /, content: str, *, idempotency_key: str | None = None, **arguments: Any
    ) -> Exchange[ContextIndexed]:
        """Put a text into the context. The other arguments are those of the tool `rag_context_index`."""
        body = {"content": content, **arguments}
        return ask(write("POST", "/tools/rag_context_index", body, idempotency_key=idempotency_key))

    @operation
    def context_health(self) -> Exchange[ContextHealth]:
        """Tell how the parts are that the context tools need."""
        return ask(read("/tools/rag_context_health", {}))

    @operation
    def context_stats(self, time_range: TimeRange = "24h") -> Exchange[ContextStats]:
        """Count the context searches of a time, and tell how long they took."""
        return ask(get("/tools/rag_context_stats", timeRange=time_range))

    @operation
    def mcp(
        self, message: Mapping[str, Any], *, protocol_version: str | None = None
    ) -> Exchange[dict[str, Any] | None]:
        """Send one message of the Model Context Protocol. A notification is answered with None."""
        return _message(message, protocol_version)


def _message(message: Mapping[str, Any], protocol_version: str | None) -> Exchange[dict[str, Any] | None]:
    plain = change("POST", "/mcp", message)
    headers = {} if protocol_version is None else {"MCP-Protocol-Version": protocol_version}
    request = Request("POST", "/mcp", headers=headers, body=plain.body, is_repeatable=False)
    reply = yield request
    if reply is None or reply.status == 202:
        return None
    answer: dict[str, Any] = json_of(reply)
    return answer
