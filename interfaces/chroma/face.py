"""What all routes below `/api/v2` share: how they tell of errors, how they read a body, and what they find by a path.

Names that they do not know are ignored: clients send what later releases of Chroma take.
"""

from __future__ import annotations

import uuid
from typing import Any

from flask import current_app, g

from schemas.errors import CollectionNotFoundError, InvalidInputError, ResetDisabledError
from schemas.names import parts_of_name
from schemas.records import Collection
from schemas.wire.chroma.errors import error_body
from wrapper.scoped_store import ScopedStore
from wrapper.web.bodies import decode_json
from wrapper.web.error_statuses import UNSUPPORTED_IS_NOT_BUILT, ErrorFace
from wrapper.web.request_parts import store

Json = dict[str, Any]

ROOT = "/api/v2"
FACE = ErrorFace(ROOT, error_body, UNSUPPORTED_IS_NOT_BUILT, lambda error, status: {"chroma-trace-id": g.request_id})
OLD_FACE = ErrorFace("/api/v1", error_body)
DATABASE = f"{ROOT}/tenants/<tenant>/databases/<database>"


def body_of(content: bytes) -> Json:
    """Return the decoded body, whose fields are null where they are absent."""
    decoded = decode_json(content)
    if not isinstance(decoded, dict):
        raise InvalidInputError("The body must be a JSON object", code="invalid_body")
    return decoded


def check_reset() -> None:
    """Raise ResetDisabledError unless the settings let a client delete everything in one call."""
    if not current_app.config["ALLOW_RESET"]:
        raise ResetDisabledError


def collection_of(tenant: str, database: str, collection_id: str) -> tuple[ScopedStore, Collection]:
    """Return the caller's store and the collection of that id. Raises InvalidInputError for what is no UUID, and
    CollectionNotFoundError, also for a collection of another database."""
    try:
        wanted = str(uuid.UUID(collection_id))
    except ValueError:
        raise InvalidInputError(
            "Collection ID is not a valid UUIDv4", code="invalid_field", field="collection_id"
        ) from None
    own = store()
    found = own.records.collection(wanted)
    if parts_of_name(found.name)[:2] != (tenant, database):
        raise CollectionNotFoundError(wanted)
    return own, found
