"""Reads the parts of a request that all routes share, by what a route declares, and answers writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import orjson
from flask import Flask, Response, current_app, g, request

from schemas.errors import InvalidInputError
from schemas.field_names import Unknown, check_names
from schemas.records import Collection
from schemas.storage.outcomes import EarlierAnswer
from schemas.wire.body import load
from schemas.wire.storage.document import with_index_state
from wrapper.store import Store
from wrapper.web.bodies import JSON, decode_json, json_response, read_body, request_digest
from wrapper.web.route_table import Route, RouteTable
from wrapper.writing import WriteOptions, Written

T = TypeVar("T")

MAX_KEY_CHARACTERS = 255
WRITING = frozenset(("POST", "PUT", "PATCH", "DELETE"))
REPLAYED = "Idempotent-Replayed"
"""The header that marks the answer to a repeated `Idempotency-Key` with `true`."""


def init_app(app: Flask) -> None:
    app.before_request(_check_query_names)
    app.before_request(_check_precondition)
    app.after_request(_add_warnings)


def declared() -> Route | None:
    """Return the row of this request's route."""
    table: RouteTable = current_app.extensions["rag.routes"]
    return table.find(request.endpoint)


def store() -> Store:
    return cast(Store, current_app.extensions["rag.service"].store)


def body(content: bytes | None = None) -> dict[str, Any]:
    """Return the checked body, that of `content` when it has been read already."""
    return checked(decode_json(read_body() if content is None else content))


def checked(decoded: Any) -> dict[str, Any]:
    """Return the fields of a decoded body by the route's schema."""
    route = declared()
    assert route is not None
    assert route.body is not None
    if isinstance(decoded, Mapping):
        check_names(decoded, route.body_names, unknown())
    return load(route.body, decoded)


def arguments() -> dict[str, Any]:
    """Return the checked query string, whose names were checked before."""
    route = declared()
    assert route is not None
    assert route.query is not None
    return load(route.query, request.args.to_dict())


def unknown() -> Unknown:
    """Return the collector of what this request's answer tells in `warnings`."""
    if "unknown" not in g:
        g.unknown = Unknown()
    return cast(Unknown, g.unknown)


def write_options(content: bytes = b"") -> WriteOptions:
    """Return `Idempotency-Key` and `If-Match`; `content` tells this request from others with the same path."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 1 <= len(key) <= MAX_KEY_CHARACTERS:
        raise InvalidInputError(
            f"Idempotency-Key must have 1 to {MAX_KEY_CHARACTERS} characters",
            code="invalid_idempotency_key",
            field="Idempotency-Key",
        )
    accepted = None
    if "If-Match" in request.headers:
        tags = request.if_match
        accepted = frozenset({"*"} if tags.star_tag else filter(None, tags.as_set()))
        if any(tag.isdecimal() for tag in accepted):
            raise InvalidInputError(
                "If-Match takes the ETag of an answer. A revision alone does not do: "
                "a later collection of the same name has it too",
                code="invalid_if_match",
                field="If-Match",
            )
    return WriteOptions(key, request_digest(content) if key else "", accepted)


def respond(
    written: Written[T],
    spell: Callable[[T], dict[str, Any]],
    status: int = 200,
    behind: int = 202,
    *,
    with_index: bool = False,
) -> Response:
    """Answer a write with its outcome as `spell` writes it, and with `behind` as the status while the index is.

    With `with_index` the answer also tells whether the index has the write.
    """
    outcome = written.outcome
    answer = outcome.answer if isinstance(outcome, EarlierAnswer) else spell(outcome)
    if with_index:
        answer = with_index_state(answer, written.indexed, written.set_aside)
    response = json_response(answer, status if written.indexed else behind, written.version)
    if written.replayed:
        response.headers[REPLAYED] = "true"
    return response


def not_modified(collection: Collection) -> Response | None:
    """Return 304 when the caller's `If-None-Match` names this state of the collection."""
    etag = collection.version
    if "If-None-Match" not in request.headers or not request.if_none_match.contains_weak(etag):
        return None
    return Response(status=304, headers={"ETag": f'"{etag}"'})


def _check_query_names() -> None:
    g.unknown = Unknown()
    route = declared()
    if route is None or request.method == "OPTIONS":
        return
    for name, values in request.args.lists():
        if len(set(values)) > 1:  # all but one would be ignored
            raise InvalidInputError(
                f"The parameter '{name}' is given {len(values)} times", code="repeated_parameter", field=name
            )
    if not route.own_rules:
        check_names(request.args, route.query_names, unknown(), noun="parameter")


def _check_precondition() -> None:
    route = declared()
    if route is not None and not route.if_match and "If-Match" in request.headers and request.method in WRITING:
        raise InvalidInputError(
            "This route takes no If-Match: nothing would be compared", code="invalid_if_match", field="If-Match"
        )


def _add_warnings(response: Response) -> Response:
    """Add `warnings` to an answer that is an object; streams, pages and empty answers have no place for them."""
    route = declared()
    if (
        "unknown" not in g
        or not 200 <= response.status_code < 300
        or response.mimetype != JSON
        or (route is not None and route.exact)
    ):
        return response
    warnings = unknown().take()
    said = response.get_data() if warnings else b""
    if said.startswith(b"{") and said.endswith(b"}"):
        comma = b"" if said == b"{}" else b","
        response.set_data(said[:-1] + comma + b'"warnings":' + orjson.dumps(warnings) + b"}")
    return response
