"""What every route reads of its request in the same way, by what it declares to take."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar, cast

import orjson
from flask import Flask, Response, current_app, g, request
from marshmallow import Schema

from schemas.documents import new_id
from schemas.errors import InvalidInputError
from schemas.known_names import NO_NAMES, Names, Unknown, check_names, names_of
from schemas.wire import load
from wrapper.bodies import JSON, decode_json, json_response, read_body, request_digest
from wrapper.store import Store, WriteOptions, Written

MAX_KEY_CHARACTERS = 255
REPLAYED = "Idempotent-Replayed"
"""A header that says `true` with the answer that an earlier request of the same `Idempotency-Key` got."""

View = TypeVar("View", bound=Callable[..., Response])


@dataclass(frozen=True, slots=True)
class Taken:
    """What a route takes: the schemas of its query string and body, None where it has none, and their names. `exact`
    answers have no field more than a seed allows, so nothing is told in them. `own_rules`: the route judges names."""

    query: Schema | None
    body: Schema | None
    query_names: Names
    body_names: Names
    exact: bool
    own_rules: bool


def takes(
    *,
    query: Schema | None = None,
    body: Schema | None = None,
    elsewhere: Mapping[str, str] | None = None,
    exact: bool = False,
    own_rules: bool = False,
) -> Callable[[View], View]:
    """Declare what a route takes; one that declares nothing takes nothing. `elsewhere` are names that callers may look
    for here, by the words for where they belong."""
    in_query, in_body = (NO_NAMES if schema is None else names_of(schema) for schema in (query, body))
    others = elsewhere or {}
    query_names = in_query.beside({**dict.fromkeys(in_body.known, "in the body"), **others})
    body_names = in_body.beside({**dict.fromkeys(in_query.known, "in the query string"), **others})

    def declare(view: View) -> View:
        view.taken = Taken(query, body, query_names, body_names, exact, own_rules)  # type: ignore[attr-defined]
        return view

    return declare


NOTHING = Taken(None, None, NO_NAMES, NO_NAMES, exact=False, own_rules=False)


def init_app(app: Flask) -> None:
    app.before_request(_check_query_names)
    app.after_request(_add_warnings)


def taken_by(endpoint: str | None) -> Taken:
    """What the route of this endpoint declares."""
    return cast(Taken, getattr(current_app.view_functions.get(endpoint or ""), "taken", NOTHING))


def store() -> Store:
    return cast(Store, current_app.extensions["rag.service"].store)


def body(content: bytes | None = None) -> dict[str, Any]:
    """The checked body, of `content` when it has been read already."""
    return checked(decode_json(read_body() if content is None else content))


def checked(decoded: Any) -> dict[str, Any]:
    """The fields of a decoded body by the route's schema."""
    taken = taken_by(request.endpoint)
    assert taken.body is not None
    if isinstance(decoded, Mapping):
        check_names(decoded, taken.body_names, unknown())
    return load(taken.body, decoded)


def arguments() -> dict[str, Any]:
    """The checked query string; its names were checked before."""
    taken = taken_by(request.endpoint)
    assert taken.query is not None
    return load(taken.query, request.args.to_dict())


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
        accepted = frozenset({"*"} if tags.star_tag else tags.as_set())
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
    if request.endpoint is None or request.method == "OPTIONS":
        return
    taken = taken_by(request.endpoint)
    if not taken.own_rules:
        check_names(request.args, taken.query_names, unknown(), noun="parameter")


def _add_warnings(response: Response) -> Response:
    """`warnings` at the end of an answer that is an object. Streams, pages and answers without a body have no place for
    them."""
    if (
        "unknown" not in g
        or not 200 <= response.status_code < 300
        or response.mimetype != JSON
        or taken_by(request.endpoint).exact
    ):
        return response
    warnings = unknown().take()
    said = response.get_data() if warnings else b""
    if said.startswith(b"{") and said.endswith(b"}"):
        comma = b"" if said == b"{}" else b","
        response.set_data(said[:-1] + comma + b'"warnings":' + orjson.dumps(warnings) + b"}")
    return response


__all__ = [
    "arguments",
    "body",
    "checked",
    "decode_json",
    "id_maker",
    "is_known",
    "read_body",
    "respond",
    "store",
    "taken_by",
    "takes",
    "unknown",
    "write_options",
]
