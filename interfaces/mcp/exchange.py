"""Carries one request and its answer between the threads of a WSGI server and the library's asynchronous
application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import mcp_types as types
import orjson
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from interfaces.mcp.messages import BYTE_ORDER_MARK, id_of, read_message
from schemas.access.credentials_in_text import Cleaner, cleaned
from schemas.errors import InvalidInputError, RagError
from wrapper.web.error_statuses import STATUS

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
    body = body.removeprefix(BYTE_ORDER_MARK)
    try:
        message = read_message(body)
    except MCPError as refused:
        answer = {"jsonrpc": "2.0", "id": id_of(body), "error": {"code": refused.code, "message": refused.message}}
        return STATUS[InvalidInputError], JSON_HEADERS, orjson.dumps(answer)
    if isinstance(message, types.JSONRPCRequest) and message.method == "tools/call":
        asked = message.params or {}
        name, arguments = asked.get("name"), asked.get("arguments") or {}
        if isinstance(name, str) and isinstance(arguments, dict):
            expect(name, arguments)
    of_mcp = [
        (name.lower().encode("latin-1"), text.encode("latin-1"))
        for name, text in headers.items()
        if name.lower().startswith("mcp-")
    ]
    return anyio.run(_exchange, server, [*GIVEN, *of_mcp], body)


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


def cleaned_answer(content: bytes, clean: Cleaner) -> bytes:
    """Return an answer with keys and tokens cut out of what it says of errors, which repeats what somebody sent.

    The library makes some errors by itself. Results of tools are left as they are, and so is the id.
    """
    if b'"error"' not in content and b'"isError"' not in content:
        return content
    answer = orjson.loads(content)
    result = answer.get("result")
    if "error" in answer:
        answer["error"] = cleaned(answer["error"], clean)
    elif isinstance(result, dict) and result.get("isError"):
        answer["result"] = cleaned(result, clean)
    else:
        return content
    return orjson.dumps(answer)
