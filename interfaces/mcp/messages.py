"""JSON-RPC messages as they arrive, before the server sees them, and as they leave."""

from __future__ import annotations

from contextlib import suppress

import mcp_types as types
import orjson

from schemas.access.credentials_in_text import Cleaner, cleaned
from schemas.errors import InvalidInputError
from schemas.metadata import is_deeper_than
from schemas.wire.json_in import decode

MAX_DEPTH = 200
"""The most levels of a message: the library reads no more over HTTP."""


class Refused(ValueError):
    """Something was sent that is not a message; `answer` says so, without an id where none could be read (JSON-RPC 2.0,
    section 5)."""

    def __init__(self, code: int, sentence: str, request_id: int | str | None = None) -> None:
        super().__init__(sentence)
        error = types.ErrorData(code=code, message=sentence)
        self.answer = types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def read_message(content: bytes) -> types.JSONRPCMessage:
    """Return the message that `content` holds. Raises Refused when it is not a message."""
    try:
        decoded = decode(content)
    except orjson.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Refused(types.PARSE_ERROR, f"The message is not valid JSON: {error.msg} at {where}") from None
    except InvalidInputError as error:
        code = types.PARSE_ERROR if error.code == "invalid_json" else types.INVALID_REQUEST
        raise Refused(code, error.message, _request_id(content)) from None
    if isinstance(decoded, list):
        raise Refused(types.INVALID_REQUEST, "Batches are not supported: send one message at a time")
    try:
        message = types.jsonrpc_message_adapter.validate_python(decoded, by_name=False)
    except ValueError:
        raise Refused(types.INVALID_REQUEST, "The message is not a JSON-RPC 2.0 request or notification") from None
    if isinstance(message, types.JSONRPCNotification) and "id" in decoded:
        # The library would take a request with an invalid id for a notification, and never answer it.
        raise Refused(types.INVALID_REQUEST, "The id of a request must be a string or an integer")
    if is_deeper_than(decoded, MAX_DEPTH):
        sentence = f"The message is nested deeper than {MAX_DEPTH} levels"
        raise Refused(types.INVALID_REQUEST, sentence, getattr(message, "id", None))
    return message


def _request_id(content: bytes) -> int | str | None:
    """Return the id of a message that is JSON, whatever else is wrong with it."""
    with suppress(orjson.JSONDecodeError):
        message = orjson.loads(content)
        given = message.get("id") if isinstance(message, dict) else None
        if isinstance(given, str | int) and not isinstance(given, bool):
            return given
    return None


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
