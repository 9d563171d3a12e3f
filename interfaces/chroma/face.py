"""What all routes below `/api/v2` share: how they tell of errors, how they read a body, and what they find by a path.

Names that they do not know are ignored, but for those that would narrow what is deleted: clients send what later
releases of Chroma take.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from flask import Response, current_app, g, request

from schemas.errors import CollectionNotFoundError, InvalidInputError, ResetDisabledError
from schemas.field_names import NO_NAMES, Unknown, check_names
from schemas.names import parts_of_name
from schemas.records import Collection
from schemas.wire.chroma.errors import error_body
from schemas.wire.chroma.records import OF_DELETION
from wrapper.scoped_store import ScopedStore
from wrapper.web.audited import note_outcome
from wrapper.web.bodies import ANY_MEDIA_TYPE, FORM, JSON, decode_json, read_body
from wrapper.web.error_statuses import UNSUPPORTED_IS_NOT_BUILT, ErrorFace
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import store
from wrapper.web.route_table import declare
from wrapper.writing import Written

Json = dict[str, Any]
T = TypeVar("T")
View = TypeVar("View", bound=Callable[..., Response])

ROOT = "/api/v2"
FACE = ErrorFace(ROOT, error_body, UNSUPPORTED_IS_NOT_BUILT, lambda error, status: {"chroma-trace-id": g.request_id})
OLD_FACE = ErrorFace("/api/v1", error_body)
ATTEMPTS = 20
"""How often a request is tried whose collection is renamed meanwhile."""
DATABASE = f"{ROOT}/tenants/<tenant>/databases/<database>"
NO_PART = NO_NAMES.beside(dict.fromkeys(OF_DELETION.known, "of POST …/delete, which deletes records"))
MEDIA_TYPES = (JSON, ANY_MEDIA_TYPE, FORM)
"""A body is read as JSON whatever its type is, and without one: bare clients name none, or what their library names.
A page of another site, which could send a body of such types unasked, is refused by its origin before."""


def chroma_route(lane: Lane, *, exact: bool = True) -> Callable[[View], View]:
    """Declare the row of a route of this protocol, as `declare` does."""
    return declare(lane, media_types=MEDIA_TYPES, exact=exact, own_rules=True)


def body_of(content: bytes) -> Json:
    """Return the decoded body, whose fields are null where they are absent. Raises InvalidInputError for none, too."""
    decoded = decode_json(content) if content else None
    if not isinstance(decoded, dict):
        raise InvalidInputError("The body must be a JSON object", code="invalid_body")
    return decoded


def check_whole() -> None:
    """Raise InvalidInputError for a request to delete all there is in something that names a part of it."""
    given = decode_json(read_body())
    for each in (request.args, given if isinstance(given, dict) else {}):
        check_names(each, NO_PART, Unknown())


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


def on_collection(tenant: str, database: str, collection_id: str, work: Callable[[ScopedStore, Collection], T]) -> T:
    """Return what `work` makes of the collection of that id, in the caller's store.

    All below takes names, and a name may go to another collection meanwhile. So `work` makes sure that it meets the
    same one, by `check_same` and by `collection_id` of a write's options; they raise CollectionNotFoundError, and then
    it is done again. Raises what `collection_of` raises.
    """
    for _ in range(ATTEMPTS):
        own, found = collection_of(tenant, database, collection_id)
        try:
            return work(own, found)
        except CollectionNotFoundError:
            continue
    raise CollectionNotFoundError(collection_id)  # for its caller, as with a name of which they may only read


def check_same(found: Collection, met: Collection) -> None:
    """Raise CollectionNotFoundError when a name has led to another collection than the one that was found."""
    if met.id != found.id:
        raise CollectionNotFoundError(found.id)


def noted(written: Written[Any]) -> Any:
    """Return the outcome of a write, noted for the audit log."""
    note_outcome(written.outcome, replayed=written.replayed)
    return written.outcome
