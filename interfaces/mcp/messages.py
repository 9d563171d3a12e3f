"""Messages of JSON-RPC as clients send them, and standard input as a stream of them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Self

import anyio
import mcp_types as types
import orjson
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from schemas.errors import InvalidInputError
from schemas.metadata import is_deeper_than
from schemas.wire.json_in import decode

MAX_DEPTH = 200
"""The most levels of a message: the library reads no more over HTTP."""
MAX_WAIT_SECONDS = 60
"""How long the end of the input waits for the answers to what came before it."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TEXT = rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)'
_TOKEN = re.compile(
    rb'"id"\s*+:\s*+(?P<id>' + _TEXT + rb"|-?[0-9]{1,18}(?![0-9.eE]))|" + _TEXT + rb"|[{}\[\]]", re.DOTALL
)
"""What tells an id of the outermost object from one below it, or in a text."""


def read_message(content: bytes) -> types.JSONRPCMessage:
    """Return the message that `content` holds. Raises MCPError when it is not a message."""
    try:
        decoded = decode(content)
    except orjson.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise MCPError(types.PARSE_ERROR, f"The message is not valid JSON: {error.msg} at {where}") from None
    except InvalidInputError as error:
        code = types.PARSE_ERROR if error.code == "invalid_json" else types.INVALID_REQUEST
        raise MCPError(code, error.message) from None
    if isinstance(decoded, list):
        raise MCPError(types.INVALID_REQUEST, "Batches are not supported: send one message at a time")
    try:
        message = types.jsonrpc_message_adapter.validate_python(decoded, by_name=False)
    except ValueError:
        raise MCPError(types.INVALID_REQUEST, "The message is not a JSON-RPC 2.0 request or notification") from None
    if isinstance(message, types.JSONRPCNotification) and "id" in decoded:
        # The library would take a request with an invalid id for a notification, and never answer it.
        raise MCPError(types.INVALID_REQUEST, "The id of a request must be a string or an integer")
    if is_deeper_than(decoded, MAX_DEPTH):
        raise MCPError(types.INVALID_REQUEST, f"The message is nested deeper than {MAX_DEPTH} levels")
    return message


def id_of(content: bytes) -> str | int | None:
    """Return the id of a message that cannot be taken, None where it has none that could be told."""
    try:
        told: Any = json.loads(content)  # this reader takes half a surrogate pair, too
    except (ValueError, RecursionError):
        return _id_in_part(content)
    return _id(told)


def ids_of(content: bytes) -> list[str | int | None]:
    """Return the ids under which such a message is answered: that of each request of a batch, else one."""
    with suppress(ValueError, RecursionError):
        told: Any = json.loads(content)
        if isinstance(told, list) and (ids := [each for each in map(_id, told) if each is not None]):
            return [*ids]
    return [id_of(content)]


def _id(message: Any) -> str | int | None:
    told = message.get("id") if isinstance(message, dict) else None
    if isinstance(told, str | int) and not isinstance(told, bool):
        with suppress(TypeError):
            orjson.dumps(told)
            return told
    return None


def _id_in_part(content: bytes) -> str | int | None:
    """Return the id that stands in the outermost object of what is no JSON as a whole."""
    depth = 0
    for token in _TOKEN.finditer(content):
        if token[0] in b"{[":
            depth += 1
        elif token[0] in b"]}":
            depth -= 1
        elif depth == 1 and token["id"]:
            with suppress(ValueError):
                return _id({"id": json.loads(token["id"])})
    return None


class Requests:
    """The lines of standard input that are messages. What is none is answered by `refuse`, under its id where it has
    one, and the end of the input is told when everything that came before is `answered`."""

    refuse: Callable[[types.JSONRPCError], Awaitable[None]]

    def __init__(self) -> None:
        self._pending: set[str | int] = set()
        self._all_answered = anyio.Event()

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in anyio.wrap_file(sys.stdin.buffer):
            line = line.removeprefix(BYTE_ORDER_MARK).strip()
            try:
                message = read_message(line) if line else None
            except MCPError as refused:
                error = types.ErrorData(code=refused.code, message=refused.message)
                for number in ids_of(line):
                    await self.refuse(types.JSONRPCError(jsonrpc="2.0", id=number, error=error))
                continue
            match message:
                case types.JSONRPCRequest(id=asked):
                    self._pending.add(asked)
                case types.JSONRPCNotification(
                    method="notifications/cancelled", params={"requestId": str() | int() as cancelled}
                ):
                    self._pending.discard(cancelled)  # it gets no answer any more
            if message is not None:
                yield line.decode()
        if self._pending:
            with anyio.move_on_after(MAX_WAIT_SECONDS):
                await self._all_answered.wait()

    def answered(self, request_id: str | int | None) -> None:
        """Note the answer to a request. The last one ends the wait of an input that has ended."""
        self._pending -= {request_id}
        if not self._pending:
            self._all_answered.set()
            self._all_answered = anyio.Event()


class Answers:
    """A stream of messages to the client that notes the answers to its requests."""

    def __init__(self, to: Any, requests: Requests) -> None:
        self._to = to
        self._requests = requests

    async def send(self, item: SessionMessage) -> None:
        await self._to.send(item)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            self._requests.answered(item.message.id)

    async def aclose(self) -> None:
        await self._to.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
