"""Carries one request and its answer between the threads of a WSGI server and the library's asynchronous
application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from interfaces.mcp.messages import Refused, read_message
from schemas.errors import InvalidInputError, RagError
from wrapper.web.error_statuses import STATUS

CALL = "tools/call"
Headers = list[tuple[str, str]]
JSON_HEADERS: Headers = [("Content-Type", "application/json")]
GIVEN = ((b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream"))
"""The headers that the library checks. They hold for every request here: the answer is JSON whatever the client
accepts."""


def exchange(
    server: Server[Any], headers: Mapping[str, str], body: bytes, expect: Callable[[str, dict[str, Any]], None]
) -> tuple[int, Headers, bytes]:
    """Return (status, headers, content) of the answer to one message. Of the request's headers only those of MCP
    matter.

    A message that calls a tool is told to `expect` before: the tool's name and its arguments, unchecked.
    """
    try:
        message = read_message(body)
    except Refused as refused:
        content = refused.answer.model_dump_json(by_alias=True, exclude_unset=True).encode()
        return STATUS[InvalidInputError], JSON_HEADERS, content
    called = _called(message)
    if called is not None:
        expect(*called)
    of_mcp = [
        (name.lower().encode("latin-1"), text.encode("latin-1"))
        for name, text in headers.items()
        if name.lower().startswith("mcp-")
    ]
    return anyio.run(_exchange, server, [*GIVEN, *of_mcp], body)


def _called(message: types.JSONRPCMessage) -> tuple[str, dict[str, Any]] | None:
    """Return the name and the arguments of the tool that a message calls, None when it calls none."""
    if not isinstance(message, types.JSONRPCRequest) or message.method != CALL:
        return None
    asked = message.params or {}
    name, arguments = asked.get("name"), asked.get("arguments") or {}
    return (name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else None


async def _exchange(server: Server[Any], headers: list[tuple[bytes, bytes]], body: bytes) -> tuple[int, Headers, bytes]:
    # A manager lasts as long as its event loop: here, as the request. The body is within the limits of the service.
    manager = StreamableHTTPSessionManager(server, stateless=True, json_response=True, max_request_body_size=len(body))
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": headers,
    }
    status, answered, content = STATUS[RagError], JSON_HEADERS, bytearray()
    is_read = False

    async def receive() -> dict[str, Any]:
        nonlocal is_read
        if is_read:
            await anyio.sleep_forever()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal status, answered
        if message["type"] == "http.response.start":
            status = message["status"]
            answered = [(name.decode("latin-1"), text.decode("latin-1")) for name, text in message["headers"]]
        else:
            content.extend(message.get("body", b""))

    async with manager.run():
        await manager.handle_request(scope, receive, send)
    return status, answered, bytes(content)
