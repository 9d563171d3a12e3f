"""JSON-RPC messages as they arrive, before the server sees them."""

from __future__ import annotations

import mcp_types as types
import orjson
from pydantic import ValidationError


class Refused(ValueError):
    """What was sent is no message; `answer` says so, without an id (JSON-RPC 2.0, section 5)."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.answer = types.JSONRPCError(jsonrpc="2.0", id=None, error=types.ErrorData(code=code, message=sentence))


def read_message(content: bytes) -> types.JSONRPCMessage:
    """Raises Refused."""
    try:
        return types.jsonrpc_message_adapter.validate_json(content, by_name=False)
    except ValidationError:
        raise _refusal(content) from None


def _refusal(content: bytes) -> Refused:
    try:
        decoded = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        return Refused(types.PARSE_ERROR, f"The message is not valid JSON: {error.msg} at {where}")
    if isinstance(decoded, list):
        return Refused(types.INVALID_REQUEST, "Batches are not supported: send one message at a time")
    return Refused(types.INVALID_REQUEST, "The message is not a JSON-RPC 2.0 request or notification")
