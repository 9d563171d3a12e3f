"""Errors in Chroma's words. Its Python client makes classes of the names, its JavaScript client of the statuses."""

from __future__ import annotations

from typing import Any

from schemas.errors import (
    CollectionNotFoundError,
    DocumentNotFoundError,
    GoneError,
    QuotaError,
    RagError,
    ResetDisabledError,
    UnsupportedError,
)
from schemas.names import parts_of_name
from schemas.wire.error_bodies import own_fields

NAMES = {
    400: "InvalidArgumentError",
    401: "AuthorizationError",
    403: "AuthError",
    404: "NotFoundError",
    409: "UniqueConstraintError",
    413: "BatchSizeExceededError",
    429: "RateLimitError",
}
"""The names by status; others are Chroma's general ones."""
ALREADY = "collection_exists"


def error_body(error: RagError, status: int) -> dict[str, Any]:
    return {"error": _name(error, status), "message": _message(error), **own_fields(error)}


def _name(error: RagError, status: int) -> str:
    if isinstance(error, GoneError):
        return "Unimplemented"
    if isinstance(error, QuotaError):
        return "QuotaError"
    if isinstance(error, ResetDisabledError | UnsupportedError):
        return "ChromaError"
    return NAMES.get(status, "InternalError" if status >= 500 else "ChromaError")


def _message(error: RagError) -> str:
    details = error.details
    if error.code == "dimension_mismatch" and {"expected", "actual"} <= details.keys():
        return f"Collection expecting embedding with dimension of {details['expected']}, got {details['actual']}"
    name = parts_of_name(str(details.get("collection", "")))[2]
    if isinstance(error, CollectionNotFoundError):
        return f"Collection [{name}] does not exist"
    if isinstance(error, DocumentNotFoundError):
        return f"Error finding id '{details.get('id')}'"
    if error.code == ALREADY and name:
        return f"Collection [{name}] already exists"
    return error.message
