"""Errors as OpenAI's clients read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.errors import CollectionNotFoundError, RagError, SlowClientError, TooManyRequestsError, UnauthorizedError
from schemas.wire.error_bodies import own_fields

Json = dict[str, Any]

KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
"""The `type` of an error by its status; others below 500 are `invalid_request_error`, from 500 on `server_error`."""
MOST_WAITED_SECONDS = 60
"""The longest that OpenAI's clients wait as they are told; told of more, they ask again at once."""


def error_body(error: RagError, status: int) -> Json:
    """Spell an error as `{error: {message, type, param, code}}`, beside our own `code` and `details`."""
    kind = KINDS.get(status) or ("invalid_request_error" if status < 500 else "server_error")
    param = error.details.get("field")
    if isinstance(error, CollectionNotFoundError) and param == "collections":
        param = "vector_store_ids"  # by the name that clients of the protocol use
    said = {"message": error.message, "type": kind, "param": param, "code": _code(error)}
    return {"error": said, **own_fields(error)}


def error_headers(error: RagError, status: int) -> Mapping[str, str]:
    """Return what tells clients, which go by the status otherwise, whether the same may succeed within a minute."""
    return {"x-should-retry": "true" if _may_pass_soon(error) else "false"}


def _may_pass_soon(error: RagError) -> bool:
    """Return whether the same request may succeed within a minute: where the answer has such a `Retry-After`, and after
    a connection that was too slow. What a key may do in a day comes back at midnight, so it passes only just before."""
    seconds = error.retry_after_seconds
    return isinstance(error, SlowClientError) or (seconds is not None and seconds <= MOST_WAITED_SECONDS)


def _code(error: RagError) -> str:
    """Return the code that OpenAI has for an error, ours for others."""
    if isinstance(error, UnauthorizedError):
        return "invalid_api_key"
    if isinstance(error, TooManyRequestsError):
        return "rate_limit_exceeded" if _may_pass_soon(error) else "insufficient_quota"
    return error.code
