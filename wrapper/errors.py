"""Errors to HTTP: one table, one body, one place."""

from __future__ import annotations

from typing import Any

import structlog
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from schemas.errors import (
    BusyError,
    ConfigurationError,
    ConflictError,
    DiskFloorError,
    ForbiddenOriginError,
    HostNotAllowedError,
    InvalidInputError,
    NotFoundError,
    PayloadTooLargeError,
    PreconditionFailedError,
    RagError,
    SlowClientError,
    TooSlowError,
    UnavailableError,
    UnsupportedError,
    UnsupportedMediaError,
)
from wrapper.bodies import LongRequestLineError, json_response
from wrapper.document_paths import hint

log = structlog.get_logger(__name__)

STATUS: dict[type[RagError], int] = {
    InvalidInputError: 400,
    ForbiddenOriginError: 403,
    NotFoundError: 404,
    SlowClientError: 408,
    ConflictError: 409,
    PreconditionFailedError: 412,
    PayloadTooLargeError: 413,
    LongRequestLineError: 414,
    UnsupportedMediaError: 415,
    HostNotAllowedError: 421,
    UnsupportedError: 422,
    ConfigurationError: 409,
    BusyError: 503,
    UnavailableError: 503,
    TooSlowError: 503,
    DiskFloorError: 507,
    RagError: 500,
}


def status_of(error: RagError) -> int:
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def body(error: RagError) -> dict[str, Any]:
    """The error body of seeds 003 and 000: the sentence under `error`, `message` and `detail`."""
    return {
        "error": error.summary or error.message,
        "message": error.message,
        "detail": error.message,
        "code": error.code,
        "details": error.details,
    }


def headers(error: RagError) -> dict[str, str]:
    if isinstance(error, UnavailableError) and not isinstance(error, DiskFloorError):
        return {"Retry-After": str(error.retry_after_seconds)}
    return {}


def error_response(error: RagError) -> Response:
    response = json_response(body(error), status_of(error))
    response.headers.update(headers(error))
    return response


def init_app(app: Flask) -> None:
    app.register_error_handler(RagError, respond)
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(Exception, _defect)


def respond(error: RagError) -> Response:
    """The answer to a request that failed, and a line in the log when it is our fault."""
    if status_of(error) >= 500:
        log.warning("request failed", code=error.code, reason=error.message, cause=repr(error.__cause__))
    return error_response(error)


def http_error(error: HTTPException) -> Response:
    if isinstance(error, NotFound):
        return error_response(NotFoundError(f"No such route: {request.method} {request.path}", code="route_not_found"))
    if isinstance(error, MethodNotAllowed):
        allowed = sorted(error.valid_methods or ())
        sentence = f"{request.method} is not allowed here; {', '.join(allowed)} would be"
        if more := hint(request.path):
            sentence = f"{sentence}. {more}"
        response = error_response(InvalidInputError(sentence, code="method_not_allowed", allowed=allowed))
        response.status_code = 405
        response.headers["Allow"] = ", ".join(allowed)
        return response
    response = error_response(InvalidInputError(error.description or error.name, code="bad_request"))
    response.status_code = error.code or 400
    return response


def _defect(error: Exception) -> Response:
    log.exception("unexpected failure", error=repr(error))
    return error_response(RagError("Internal server error"))
