"""Errors to HTTP: the one table of statuses, and the one way to answer by it.

Routes below a path that speaks another product's protocol, a face, tell of errors in its words. A face hooks in with
one call of `speak`. From then on every error below its path is answered that way, whoever raised it: its routes, what
is checked before them (keys, hosts, lanes, bodies), and paths that are none.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import structlog
from flask import Blueprint, Flask, Request, Response, current_app, g, has_request_context, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from schemas.access.callers import Caller
from schemas.access.credentials_in_text import Cleaner, cleaned, through_escapes, without_credentials
from schemas.errors import (
    BusyError,
    ClientGoneError,
    CollectionForbiddenError,
    CollectionNotFoundError,
    ConfigurationError,
    ConflictError,
    DatabaseForbiddenError,
    DatabaseNotFoundError,
    DiskFloorError,
    ForbiddenOriginError,
    GoneError,
    HostNotAllowedError,
    InvalidInputError,
    LongHeadersError,
    LongRequestLineError,
    MalformedRequestError,
    MatchesEverythingError,
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
    TenantNotFoundError,
    TooManyRequestsError,
    TooSlowError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedError,
    UnsupportedMediaError,
    WrongMethodError,
)
from schemas.names import full_name
from schemas.wire.error_bodies import error_body
from wrapper.audit.noted import note_count, note_missing
from wrapper.observing import metrics
from wrapper.web.bodies import json_response, leave_body
from wrapper.web.document_paths import hint

log = structlog.get_logger(__name__)

SCOPE_MISSING = "scope_missing"
"""The code of a refusal that another scope would lift; `details.scope` names it."""
NOTHING_DONE = MatchesEverythingError.code
"""The code of a refusal whose `details.count` is of documents that are all still there."""

Spelling = Callable[[RagError], dict[str, Any]]
NO_OTHERS: Mapping[type[RagError], int] = MappingProxyType({})
FACES = "rag.error_faces"
"""Under which name the application has its faces."""

STATUS: dict[type[RagError], int] = {
    InvalidInputError: 400,
    PlainRequestError: 400,
    MalformedRequestError: 400,
    UnauthorizedError: 401,
    ForbiddenOriginError: 403,
    ScopeMissingError: 403,
    CollectionForbiddenError: 403,
    PartlySeenError: 403,
    DatabaseForbiddenError: 403,
    ResetDisabledError: 403,
    OwnedByAnotherError: 403,
    NotFoundError: 404,
    WrongMethodError: 405,
    SlowClientError: 408,
    ConflictError: 409,
    GoneError: 410,
    PreconditionFailedError: 412,
    PayloadTooLargeError: 413,
    LongRequestLineError: 414,
    UnsupportedMediaError: 415,
    HostNotAllowedError: 421,
    LongHeadersError: 431,
    UnsupportedError: 422,
    ConfigurationError: 409,
    TooManyRequestsError: 429,
    ClientGoneError: 499,
    BusyError: 503,
    UnavailableError: 503,
    TooSlowError: 503,
    DiskFloorError: 507,
    NotRecordedError: 507,
    QuotaError: 507,
    RagError: 500,
}


UNKNOWN_IS_FORBIDDEN: Mapping[type[RagError], int] = MappingProxyType({UnauthorizedError: 403})
"""Where clients take no other status than 403 for a wrong key."""
UNSUPPORTED_IS_NOT_BUILT: Mapping[type[RagError], int] = MappingProxyType({UnsupportedError: 501})
"""Where clients know 501 for what a server of their protocol does not have."""


@dataclass(frozen=True, slots=True)
class ErrorFace:
    """The errors of all paths below `below`.

    `spell` makes the body of an error that is answered with this status, and `headers` what its answer has besides
    those of every error. `statuses` are the classes of errors that have another status there than in the table.
    """

    below: str
    spell: Callable[[RagError, int], dict[str, Any]]
    statuses: Mapping[type[RagError], int] = field(default_factory=dict)
    headers: Callable[[RagError, int], Mapping[str, str]] = lambda error, status: {}


def speak(app: Flask, face: ErrorFace) -> None:
    """Have the errors of a face answered in its words."""
    app.extensions.setdefault(FACES, []).append(face)


def face_of_request() -> ErrorFace | None:
    """Return the face that the current request came to, None for routes of our own."""
    return _face_of(request.path) if has_request_context() else None


def _face_of(path: str) -> ErrorFace | None:
    path = f"/{path.lstrip('/')}"  # as routes are found
    faces: list[ErrorFace] = current_app.extensions.get(FACES, [])
    return next((each for each in faces if path == each.below or path.startswith(f"{each.below}/")), None)


def status_of(kind: type[RagError], others: Mapping[type[RagError], int] = NO_OTHERS) -> int:
    """Return the status of an error's class, which is that of its nearest ancestor in the table, or in `others`."""
    return next(status for each in kind.__mro__ if (status := others.get(each) or STATUS.get(each)) is not None)


def early_response(app: Flask, error: RagError, path: str) -> Response:
    """Return the answer to what the server refuses before it is a request of Flask's, as the face of its path spells
    it."""
    with app.app_context():
        g.request_id = uuid.uuid4().hex
        response = _error_response(error, error_body, _face_of(path))
        response.headers["X-Request-ID"] = g.request_id
    return response


def error_response(error: RagError, spell: Spelling = error_body) -> Response:
    """Return the answer that tells of an error, its body spelt by `spell`, or as the face of the request spells it."""
    return _error_response(error, spell, face_of_request())


def _error_response(error: RagError, spell: Spelling, face: ErrorFace | None) -> Response:
    status = status_of(type(error), NO_OTHERS if face is None else face.statuses)
    body = spell(error) if face is None else face.spell(error, status)
    # Once more: it knows the key of the settings, and not every spelling has cleaned its texts.
    clean: Cleaner = current_app.extensions.get("rag.clean", without_credentials)
    response = json_response(cleaned(body, through_escapes(clean)), status)
    if face is not None:
        response.headers.update(face.headers(error, status))
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    if isinstance(error, WrongMethodError):
        response.headers["Allow"] = ", ".join(error.details["allowed"])
    if isinstance(error, UnauthorizedError) or error.code == SCOPE_MISSING:
        response.headers["WWW-Authenticate"] = current_app.extensions.get("rag.challenge", plain_challenge)(
            request, error
        )
    return response


def plain_challenge(asked: Request, error: RagError) -> str:
    """Return the `WWW-Authenticate` of a refusal where callers have keys only."""
    return "Bearer"


def init_app(app: Flask) -> None:
    app.register_error_handler(RagError, respond)
    app.register_error_handler(HTTPException, http_error)
    app.register_error_handler(Exception, respond_to_defect)


def spell_errors(blueprint: Blueprint, spell: Spelling, *, defects_too: bool = False) -> None:
    """Have the errors of a blueprint's routes spelt by `spell`, those nobody expected only with `defects_too`."""
    blueprint.register_error_handler(RagError, partial(respond, spell=spell))
    if defects_too:
        blueprint.register_error_handler(HTTPException, http_error)
        blueprint.register_error_handler(Exception, partial(respond_to_defect, spell=spell))


UNRECORDED = frozenset({"audit_unwritable", "audit_unavailable", "not_recorded"})
"""The codes of requests that were refused, or not answered, because nothing could be recorded of them."""


def respond(error: RagError, spell: Spelling = error_body) -> Response:
    """Answer a request that failed; log it when the fault is ours, and count it when the caller's limits refuse it."""
    if isinstance(error, PayloadTooLargeError):
        leave_body()  # now: its client may send the rest slowly, or never
    done = error.details.get("count")  # of a stream that was stored in part
    if isinstance(done, int) and error.code != NOTHING_DONE:
        note_count(done)
    if isinstance(error, CollectionNotFoundError):
        note_missing(error.names)
    if isinstance(error, DatabaseNotFoundError):
        note_missing([full_name(error.details["tenant"], error.details["database"], "")], Caller.knows_some)
    if isinstance(error, TenantNotFoundError):
        note_missing([f"/{error.details['tenant']}/"], Caller.knows_some)
    if isinstance(error, TooManyRequestsError | QuotaError):
        metrics.REFUSED_REQUESTS.labels(error.code).inc()
        return error_response(error, spell)
    if error.code in UNRECORDED:
        metrics.AUDIT_REFUSED.labels(error.code).inc()
    if status_of(type(error)) >= STATUS[RagError]:
        log.warning("request failed", code=error.code, reason=error.message, cause=repr(error.__cause__))
    return error_response(error, spell)


def http_error(error: HTTPException) -> Response:
    """Answer a request that Flask refused."""
    if isinstance(error, NotFound):
        return error_response(NotFoundError(f"No such route: {request.method} {request.path}", code="route_not_found"))
    if isinstance(error, MethodNotAllowed):
        allowed = sorted(error.valid_methods or ())
        sentence = f"{request.method} is not allowed here; {', '.join(allowed)} would be"
        if more := hint(request.path):
            sentence = f"{sentence}. {more}"
        return error_response(WrongMethodError(sentence, allowed=allowed))
    response = error_response(InvalidInputError(error.description or error.name, code="bad_request"))
    response.status_code = error.code or response.status_code
    return response


def respond_to_defect(error: Exception, spell: Spelling = error_body) -> Response:
    """Answer a request that failed in a way nobody expected, and log how."""
    log.exception("unexpected failure", error=repr(error))
    return error_response(RagError("Internal server error"), spell)
