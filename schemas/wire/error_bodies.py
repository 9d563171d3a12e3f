"""Errors as JSON, in the spellings of the contracts. Statuses are in `wrapper/web/error_statuses.py` alone.

Sentences and details repeat what somebody sent, so keys and tokens are cut out of them.
"""

from __future__ import annotations

from typing import Any

from schemas.access.credentials_in_text import cleaned, without_credentials
from schemas.errors import (
    ClientGoneError,
    CollectionForbiddenError,
    ConfigurationError,
    ConflictError,
    DatabaseForbiddenError,
    DiskFloorError,
    ForbiddenOriginError,
    GoneError,
    HostNotAllowedError,
    InvalidInputError,
    LongHeadersError,
    LongRequestLineError,
    MalformedRequestError,
    NotFoundError,
    NotRecordedError,
    OwnedByAnotherError,
    PartlySeenError,
    PayloadTooLargeError,
    PlainRequestError,
    PreconditionFailedError,
    QuotaError,
    RagError,
    ResetDisabledError,
    ScopeMissingError,
    SlowClientError,
    TooManyRequestsError,
    TooSlowError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedError,
    UnsupportedMediaError,
    WrongMethodError,
)

Json = dict[str, Any]

OTHER = "Error"
SHORT_WORDS: dict[type[RagError], str] = {
    InvalidInputError: "Validation error",
    PlainRequestError: "Validation error",
    MalformedRequestError: "Validation error",
    UnauthorizedError: "Unauthorized",
    ForbiddenOriginError: "Forbidden",
    ScopeMissingError: "Forbidden",
    CollectionForbiddenError: "Forbidden",
    PartlySeenError: "Forbidden",
    DatabaseForbiddenError: "Forbidden",
    ResetDisabledError: "Forbidden",
    OwnedByAnotherError: "Forbidden",
    NotFoundError: "Not found",
    WrongMethodError: OTHER,
    SlowClientError: "Request timeout",
    ConflictError: "Conflict",
    GoneError: OTHER,
    ConfigurationError: "Conflict",
    PreconditionFailedError: OTHER,
    PayloadTooLargeError: "Payload too large",
    LongRequestLineError: OTHER,
    LongHeadersError: OTHER,
    UnsupportedMediaError: "Unsupported media type",
    HostNotAllowedError: "Misdirected request",
    UnsupportedError: OTHER,
    TooManyRequestsError: "Too many requests",
    ClientGoneError: "Client closed request",
    UnavailableError: "Service Unavailable",
    TooSlowError: "Service Unavailable",
    DiskFloorError: "Insufficient storage",
    NotRecordedError: "Insufficient storage",
    QuotaError: "Insufficient storage",
    RagError: "Internal server error",
}
"""The short words that contracts *rules* and *documents* have under `error`, by the nearest class."""
SERVICE_FAULTS = (UnavailableError, TooSlowError, DiskFloorError, NotRecordedError, QuotaError, RagError)
"""The nearest classes of errors whose cause is this service or what it holds, and not the request."""


def error_body(error: RagError) -> Json:
    """Spell an error as contracts *storage* and *context* do: the sentence under `error`, `message` and `detail`."""
    message = without_credentials(error.message)
    return {
        "error": error.summary or message,
        "message": message,
        "detail": message,
        "code": error.code,
        "details": cleaned(error.details, without_credentials),
    }


def error_body_with_short_word(error: RagError) -> Json:
    """Spell an error as contracts *rules* and *documents* do: a short word under `error`, the sentence among the
    details too."""
    body = error_body(error)
    return {
        **body,
        "error": SHORT_WORDS[nearest(error)],
        "details": {**body["details"], "message": body["message"]},
    }


def tool_error_body(error: RagError) -> Json:
    """Spell a tool's error: `fallback` says whether the fault is this service's."""
    return {**error_body(error), "fallback": nearest(error) in SERVICE_FAULTS}


def own_fields(error: RagError) -> Json:
    """Return what programs read of an error, which the bodies of other products' protocols have beside their own
    fields."""
    return {"code": error.code, "details": cleaned(error.details, without_credentials)}


def nearest(error: RagError) -> type[RagError]:
    """Return the class of `SHORT_WORDS` that an error belongs to."""
    return next(kind for kind in type(error).__mro__ if kind in SHORT_WORDS)
