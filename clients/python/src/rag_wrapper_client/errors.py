"""What a call can fail with: one family of errors, each with the service's own `code`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class RagWrapperError(Exception):
    """A call failed.

    `code` says what happened and stays the same between releases (docs/errors.md lists those of the service); `status`
    is that of the answer, None when there was none; `details` say where the fault is; under `request_id` the request
    is in the service's log.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int | None = None,
        details: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        retry_after_seconds: float | None = None,
        body: Any = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.details: dict[str, Any] = dict(details or {})
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds
        self.body = body
        """The whole answer, where it was JSON: some routes say more than other errors do."""

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.message, self.__dict__)


class NotModifiedError(RagWrapperError):
    """Nothing has changed since the ETag that `if_none_match` named (304)."""


class InvalidRequestError(RagWrapperError):
    """The request is not taken as it is, or cannot be made; nothing was stored (400 and other 4xx)."""


class UnauthorizedError(RagWrapperError):
    """The key is missing, unknown, expired or revoked (401)."""


class ForbiddenError(RagWrapperError):
    """The key may not do this (403)."""


class NotFoundError(RagWrapperError):
    """There is no such collection, document or other thing (404)."""


class ConflictError(RagWrapperError):
    """The request contradicts what is stored (409)."""


class GoneError(RagWrapperError):
    """What was asked for is not known any more (410): a copy begins anew, without a place."""


class PreconditionFailedError(RagWrapperError):
    """Somebody else has written since the revision that `if_match` named (412)."""


class RateLimitedError(RagWrapperError):
    """The key has used up what its limits allow for now (429); see `retry_after_seconds`."""


class UnavailableError(RagWrapperError):
    """The service cannot answer now (503)."""


class ServerError(RagWrapperError):
    """The service failed (500), or its disk is nearly full (507)."""


class ConnectionFailedError(RagWrapperError):
    """No whole answer arrived: whether the service did what was asked is not known."""


class TimedOutError(ConnectionFailedError):
    """The service was silent for longer than the timeout."""


class UnusableAnswerError(RagWrapperError):
    """What answered does not speak as a rag-wrapper does, or a stream ended too early."""


_BY_STATUS: dict[int, type[RagWrapperError]] = {
    304: NotModifiedError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    412: PreconditionFailedError,
    429: RateLimitedError,
    503: UnavailableError,
}
_SHOWN_CHARACTERS = 200


def error_of(status: int, headers: Mapping[str, str], content: bytes, *, wait_seconds: float | None) -> RagWrapperError:
    """Return the error that an answer tells of."""
    by_class = ServerError if status >= 500 else InvalidRequestError if status >= 400 else UnusableAnswerError
    kind = _BY_STATUS.get(status, by_class)
    request_id = headers.get("X-Request-ID")
    body = _json(content)
    told = body if isinstance(body, dict) else {}
    details = told.get("details")
    return kind(
        _sentence(status, told, content),
        code=_code(status, told),
        status=status,
        details=details if isinstance(details, dict) else {},
        request_id=request_id,
        retry_after_seconds=wait_seconds,
        body=body,
    )


def event_error(event: Mapping[str, Any]) -> RagWrapperError:
    """Return the error that the last event of a stream tells of."""
    details = event.get("details")
    return UnavailableError(
        _sentence(200, event, b""),
        code=_code(200, event),
        status=None,
        details=details if isinstance(details, dict) else {},
        body=dict(event),
    )


def _sentence(status: int, told: Mapping[str, Any], content: bytes) -> str:
    for name in ("message", "detail", "error"):
        if isinstance(sentence := told.get(name), str) and sentence:
            return sentence
        if isinstance(sentence, dict) and isinstance(inner := sentence.get("message"), str):
            return inner  # JSON-RPC and others keep it in an object
    shown = content[:_SHOWN_CHARACTERS].decode(errors="replace").strip()
    return f"The service answered {status}" + (f": {shown}" if shown else "")


def _code(status: int, told: Mapping[str, Any]) -> str:
    for name in ("code", "errorType"):
        if isinstance(code := told.get(name), str) and code:
            return code
    return "not_modified" if status == 304 else f"status_{status}"


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _again(kind: type[RagWrapperError], message: str, state: dict[str, Any]) -> RagWrapperError:
    error = kind(message, code="")
    error.__dict__.update(state)
    return error
