"""What every route reads of its request in the same way, by what it declares to take."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, cast

import orjson
from flask import Flask, Response, current_app, g, request

from schemas.documents import new_id
from schemas.errors import InvalidInputError
from schemas.known_names import Unknown, check_names
from schemas.wire import load
from wrapper.bodies import JSON, decode_json, json_response, read_body, request_digest
from wrapper.route_table import Route, RouteTable
from wrapper.store import Store, WriteOptions, Written

MAX_KEY_CHARACTERS = 255
WRITING = frozenset(("POST", "PUT", "PATCH", "DELETE"))
REPLAYED = "Idempotent-Replayed"
"""A header that says `true` with the answer that an earlier request of the same `Idempotency-Key` got."""


def init_app(app: Flask) -> None:
    app.before_request(_check_query_names)
    app.before_request(_check_precondition)
    app.after_request(_add_warnings)


def declared() -> Route | None:
    """The row of this request's route."""
    table: RouteTable = current_app.extensions["rag.routes"]
    return table.find(request.endpoint)


def store() -> Store:
    return cast(Store, current_app.extensions["rag.service"].store)


def body(content: bytes | None = None) -> dict[str, Any]:
    """The checked body, of `content` when it has been read already."""
    return checked(decode_json(read_body() if content is None else content))


def checked(decoded: Any) -> dict[str, Any]:
    """The fields of a decoded body by the route's schema."""
    route = declared()
    assert route is not None
    assert route.body is not None
    if isinstance(decoded, Mapping):
        check_names(decoded, route.body_names, unknown())
    return load(route.body, decoded)


def arguments() -> dict[str, Any]:
    """The checked query string; its names were checked before."""
    route = declared()
    assert route is not None
    assert route.query is not None
    return load(route.query, request.args.to_dict())


def unknown() -> Unknown:
    """What this request's answer has to tell in `warnings`."""
    if "unknown" not in g:
        g.unknown = Unknown()
    return cast(Unknown, g.unknown)


def write_options(content: bytes = b"") -> WriteOptions:
    """`Idempotency-Key` and `If-Match`. `content` is what tells this request from others with the same path."""
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


def id_maker(options: WriteOptions) -> Callable[[], str]:
    """Ids for documents that bring none. A repeat with the same `Idempotency-Key` makes the same ones."""
    if options.idempotency_key is None:
        return new_id
    numbers = count()
    return lambda: f"doc_{uuid.uuid5(uuid.NAMESPACE_OID, f'{options.idempotency_key}:{next(numbers)}')}"


def respond(written: Written, status: int = 200, behind: int = 202) -> Response:
    """The answer of a write, `behind` being its status while the index is, and whether it was given before."""
    response = json_response(written.answer, status if written.indexed else behind, written.etag)
    if written.replayed:
        response.headers[REPLAYED] = "true"
    return response


def is_known(etag: str) -> bool:
    """True when the caller's `If-None-Match` names this state."""
    return "If-None-Match" in request.headers and request.if_none_match.contains_weak(etag)


def _check_query_names() -> None:
    g.unknown = Unknown()
    route = declared()
    if route is None or request.method == "OPTIONS":
        return
    for name, values in request.args.lists():
        if len(set(values)) > 1:  # one of them would be ignored
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
    """`warnings` at the end of an answer that is an object. Streams, pages and answers without a body have no place for
    them."""
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
