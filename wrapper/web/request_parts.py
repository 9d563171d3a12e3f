"""Reads the parts of a request that all routes share, by what a route declares."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar, cast

from flask import Flask, current_app, g, request
from marshmallow import Schema

from schemas.access.callers import Scope, check_acting
from schemas.access.owners import OPEN
from schemas.access.table import TOOLS, Door
from schemas.errors import BusyError, ClientGoneError, InvalidInputError, RagError
from schemas.field_names import Names, Unknown, check_names
from schemas.names import DEFAULT_DATABASE, DEFAULT_TENANT, check_database
from schemas.storage import read_limits
from schemas.storage.erasure_count import UNKNOWN
from schemas.wire.body import ExactBody, load, noting_caps
from schemas.wire.json_in import check_named_once
from schemas.wire.storage.waiting import WAITING_ARGUMENTS
from wrapper.observing import metrics
from wrapper.scoped_store import ScopedStore
from wrapper.web import callers
from wrapper.web.bodies import client_watch, decode_json, has_body, leave_body, read_body, request_digest
from wrapper.web.lanes import Lane, Lanes, Wait
from wrapper.web.route_table import DATABASE, Route, RouteTable
from wrapper.writing import WriteOptions

T = TypeVar("T")

MAX_KEY_CHARACTERS = 255
WRITING = frozenset(("POST", "PUT", "PATCH", "DELETE"))
WRITERS = (Scope.WRITE, Scope.MANAGE, Scope.ADMIN)
CACHE_BUSTER = "_"
"""The parameter by which pages have their reads answered anew."""
NAMED_BY_PATH = {
    **{each: each for each in ("collection", "vector_store_id", "file_id", "batch_id")},
    **dict.fromkeys(("document_id", "stored_id", "connection_id", "key_id"), "id"),
    **{"kind": "type", "provider": "provider"},
}
"""The parts of paths that bodies and query strings may name too, and what they are called there."""
READING = (Lane.READ, Lane.COMPUTING, Lane.SERVICE, Lane.EMBEDDING)
"""The lanes in which requests that need the scope `read` are limited."""
END_LIMIT = "rag.end_limit"
KEEPING = (Lane.SERVICE, Lane.EMBEDDING)
"""The lanes whose requests keep something of what is asked: in conversations, topics, notes, caches and metrics."""


def init_app(app: Flask) -> None:
    app.before_request(_check_query_names)
    app.before_request(_check_precondition)


def declared() -> Route | None:
    """Return the row of this request's route."""
    table: RouteTable = current_app.extensions["rag.routes"]
    return table.find(request.endpoint)


def enter_lane(lane: Lane) -> None:
    """Wait for a place in the lane, which the request keeps until it ends. Raises BusyError when none is free in time,
    or when something was erased meanwhile and the lane is one of `KEEPING`, and ClientGoneError."""
    lanes: Lanes = current_app.extensions["rag.lanes"]
    g.leave = lanes.enter(lane, client_watch(), partial(_waiting, lanes, lane))
    if lane is Lane.FOLLOWING:
        end_limit()
    elif lane in READING:
        limit_reads(callers.needed())


def _waiting(lanes: Lanes, lane: Lane, wait: Wait) -> None:
    erasures_before: list[int] = []
    try:
        wait(lambda: erasures_before.append(_erasures()))
        if erasures_before and lane in KEEPING and erasures_before != [_erasures()]:
            raise BusyError("Something was erased while this request waited for its turn")
    except (BusyError, ClientGoneError) as error:
        if isinstance(error, BusyError):
            metrics.REFUSED_REQUESTS.labels(error.code).inc()
            metrics.LANE_REFUSED.labels(lanes.name_of(lane)).inc()
        leave_body()
        raise
    check_acting()  # a place may come after a minute


def limit_reads(needs: Scope | Door) -> None:
    """Bound what a request that only reads, or chats, may read until it ends: by time, and by its client's being
    there."""
    route = declared()
    if needs not in (Scope.READ, Scope.CHAT) or route is None:
        return
    end_limit()  # that of another lane
    config = current_app.config
    seconds = config["QUERY_SECONDS"] + (config["SERVICE_SECONDS"] if route.lane in KEEPING else 0.0)
    limited = read_limits.limited(read_limits.ReadLimit(seconds, client_watch()))
    limited.__enter__()
    request.environ[END_LIMIT] = limited


def end_limit() -> None:
    """Bound the reads of this request no more. A snapshot that is open keeps its limit."""
    limited = request.environ.pop(END_LIMIT, None)
    if limited is not None:
        limited.__exit__(None, None, None)


def _erasures() -> int:
    try:
        return store().writing.erasures()
    except RagError:  # what can be answered without the catalogue is
        return UNKNOWN


def change_lane(lane: Lane) -> None:
    """Give the request's place back and wait for one in another lane, because its body asks for something else than its
    route usually does. Raises BusyError when none is free in time."""
    g.pop("leave")()
    enter_lane(lane)


def store() -> ScopedStore:
    """Return the store as the caller of this request sees it: the collections of the database that the request names.

    Raises InvalidInputError when that is no name of one, and DatabaseNotFoundError.
    """
    callers_store = cast(ScopedStore, current_app.extensions["rag.service"].callers_store)
    asked = asked_database()
    return callers_store if asked is None else callers_store.in_database(*asked)


def asked_database() -> tuple[str, str] | None:
    """Return (tenant, database) when the request names a database that is not the default one. Raises InvalidInputError
    when that is no name of one."""
    route = declared()
    if route is None or not route.in_database or DATABASE not in request.args:
        return None
    asked = check_database(request.args[DATABASE])
    return None if asked == (DEFAULT_TENANT, DEFAULT_DATABASE) else asked


def body(content: bytes | None = None) -> dict[str, Any]:
    """Return the checked body, that of `content` when it has been read already."""
    return checked(decoded(read_body() if content is None else content))


def decoded(content: bytes) -> Any:
    """Return the value of a body. Raises InvalidInputError when it is no JSON, or an exact one, or that of a deletion,
    says something twice."""
    route, value = declared(), decode_json(content)
    is_exact = request.method == "DELETE" or (route is not None and isinstance(route.body, ExactBody))
    if is_exact and content:
        check_named_once(content)
    return value


def checked(value: Any) -> dict[str, Any]:
    """Return the fields of a decoded body by the route's schema."""
    route = declared()
    assert route is not None
    assert route.body is not None
    if isinstance(value, Mapping):
        value = _beside_path(value, route.body_names)
        check_names(value, route.body_names, unknown())
    return _loaded(route.body, value)


def arguments() -> dict[str, Any]:
    """Return the checked query string, whose names were checked before."""
    route = declared()
    assert route is not None
    assert route.query is not None
    return _loaded(route.query, request.args.to_dict())


def arguments_beside(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the checked query string with what a form gives beside it. Raises InvalidInputError for what both say."""
    route = declared()
    assert route is not None
    assert route.query is not None
    check_names(_beside_path(given, route.query_names), route.query_names, unknown())
    for name in given:
        if name in request.args:
            sentence = f"'{name}' is given in the query string and in the body"
            raise InvalidInputError(sentence, code="repeated_parameter", field=name)
    return _loaded(route.query, {**request.args.to_dict(), **given})


def _loaded(schema: Schema, source: Any) -> dict[str, Any]:
    with noting_caps() as caps:
        loaded = load(schema, source)
    for each in caps:
        unknown().say(each)
    return loaded


def unknown() -> Unknown:
    """Return the collector of what this request's answer tells in `warnings`."""
    if "unknown" not in g:
        g.unknown = Unknown()
    return cast(Unknown, g.unknown)


def write_options(content: bytes = b"") -> WriteOptions:
    """Return `Idempotency-Key`, `If-Match` and, where the route takes it, `wait`; `content` tells this request from
    others with the same path."""
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
    route = declared()
    wait = _loaded(WAITING_ARGUMENTS, request.args.to_dict())["wait"] if route is not None and route.waits else None
    return WriteOptions(_own(key), request_digest(content) if key else "", accepted, wait=wait)


def _own(key: str | None) -> str | None:
    """Return an idempotency key as one of the caller's own: another caller's of the same text is another key."""
    asking = callers.caller()
    if key is None or asking is None or asking.owner == OPEN:
        return key
    return hashlib.sha256(f"{asking.owner}\0{key}".encode()).hexdigest()


def _check_query_names() -> None:
    g.unknown = Unknown()
    route = declared()
    if route is None or request.method == "OPTIONS":
        return
    if request.method == "DELETE":
        _check_end_of_path()
    for name, values in request.args.lists():
        if len(set(values)) > 1:  # all but one would be ignored
            raise InvalidInputError(
                f"The parameter '{name}' is given {len(values)} times", code="repeated_parameter", field=name
            )
    if route.own_rules:
        return
    given = _beside_path(request.args, route.query_names)
    check_names(given, route.query_names, unknown(), noun="parameter")
    if route.exact or isinstance(route.body, ExactBody) or _writes(route):
        for name in given:
            if name not in route.query_names.known and (name != CACHE_BUSTER or request.method in WRITING):
                raise InvalidInputError(f"The parameter '{name}' is unknown", code="unknown_field", field=name)
    if request.method == "DELETE" and route.body is None and has_body():
        _refuse_body(route)


def _writes(route: Route) -> bool:
    """Return whether this request writes, as its lane says, or the scope that its route or its tool asks for."""
    if request.method not in WRITING:
        return False
    if route.lane is Lane.WRITE or request.method == "DELETE":
        return True
    tool = TOOLS.get((request.view_args or {}).get("tool", ""))
    return (callers.needed() if tool is None else tool.needs) in WRITERS


def _check_end_of_path() -> None:
    """Raise InvalidInputError for a slash that is not the end of an id: clients make the path of a collection with it
    of the path of its document `..`."""
    ids = (request.view_args or {}).values()
    if request.path.endswith("/") and not any(str(each).endswith("/") for each in ids):
        sentence = (
            "The path of a DELETE has no slash at its end: clients make it of one with the id '..', which is below"
        )
        raise InvalidInputError(sentence, code="invalid_id")


def _refuse_body(route: Route) -> None:
    """Raise InvalidInputError for a body that says anything, where none is read: it might have been a limit."""
    given = decoded(read_body())
    if isinstance(given, Mapping):
        given = {name: value for name, value in _beside_path(given, route.body_names).items() if value is not None}
        check_names(given, route.body_names, unknown())
    if given:
        raise InvalidInputError("This route takes no body: nothing in it would be read", code="invalid_body")


def _beside_path(given: Mapping[str, Any], names: Names) -> Mapping[str, Any]:
    """Return a body or a query string of these names without what only repeats the path. Raises InvalidInputError when
    it names another thing than the path does."""
    route, repeated = declared(), set()
    for part, named in (request.view_args or {}).items():
        # Below /collections; the name of a watcher, for example, is another one.
        name = "collection" if part == "name" and route and route.in_database else NAMED_BY_PATH.get(part)
        if name is None:
            continue
        if given.get(name) not in (None, named):
            code = "invalid_id" if name == "id" else "invalid_field"
            raise InvalidInputError(f"{name} must be '{named}', as in the path, or absent", code=code, field=name)
        if name not in names.known:
            repeated.add(name)
    return {name: value for name, value in given.items() if name not in repeated} if repeated else given


def _check_precondition() -> None:
    """Raise InvalidInputError for a condition of a write that nothing would be compared with. Caches send
    `If-None-Match` with any read."""
    route = declared()
    if route is None or request.method not in WRITING:
        return
    for name in ("If-Match", "If-None-Match", "If-Unmodified-Since"):
        is_taken = route.if_match if name == "If-Match" else name == "If-None-Match" and not _writes(route)
        if name in request.headers and not is_taken:
            raise InvalidInputError(
                f"This route takes no {name}: nothing would be compared", code="invalid_if_match", field=name
            )
