"""The table of routes: what each waits for and takes. A route that declares nothing stops the start."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TypeVar

from flask import Flask, Response
from marshmallow import Schema
from werkzeug.routing import Rule

from schemas.access.table import ROUTES, Access
from schemas.access.table import Names as Naming
from schemas.errors import ConfigurationError
from schemas.field_names import NO_NAMES, Names, names_of, placed
from schemas.wire.storage.waiting import WAITING_ARGUMENTS
from wrapper.web.bodies import JSON
from wrapper.web.lanes import Lane

_CONVERTED = re.compile(r"<(?:[^<>:]+:)?([^<>:]+)>")
NAME_ALONE = r"{\1}"
"""A part of a path as the description of the interface writes it."""
View = TypeVar("View", bound=Callable[..., Response])
DATABASE = "database"
"""The parameter of the query string that names the database of a request's collections."""
_OF_COLLECTIONS = re.compile(r"/(collections|aliases|query)(/|$)")
_FOR_COLLECTIONS = "of the routes below /collections, /aliases and /query"


@dataclass(frozen=True, slots=True)
class Route:
    """A row of the table, which says what is decided about a route before it is called.

    `query` and `body` are the schemas of its query string and body, None where it has none, and `media_types` those of
    its body; they hold for a route that reads no body, too. An `exact` answer is no object, or has no field beyond
    those of its contract: it has no room for warnings, so unknown names in the query string are refused. `own_rules`
    means that the route judges names itself. With `if_match` the route is refused when its collection is in another
    state than the caller says; other routes take no such condition. `in_database` means that its collections are those
    of the database that the query string names, and `waits` that the query string may say what the answer waits for.
    """

    lane: Lane
    query: Schema | None = None
    body: Schema | None = None
    query_names: Names = NO_NAMES
    body_names: Names = NO_NAMES
    media_types: tuple[str, ...] = (JSON,)
    exact: bool = False
    own_rules: bool = False
    if_match: bool = False
    in_database: bool = False
    waits: bool = False


def declare(
    lane: Lane,
    *,
    query: Schema | None = None,
    body: Schema | None = None,
    elsewhere: Mapping[str, str] | None = None,
    places: bool = False,
    media_types: tuple[str, ...] = (JSON,),
    exact: bool = False,
    own_rules: bool = False,
    if_match: bool = False,
    waits: bool = False,
) -> Callable[[View], View]:
    """Declare the row of a route beside its function, with the fields of `Route`.

    `elsewhere` are names that callers may look for here, with the words for where they belong. With `places`, names
    that stand in the wrong object of the body are refused, too.
    """
    in_query, in_body = (NO_NAMES if schema is None else names_of(schema) for schema in (query, body))
    if waits:
        in_query = Names({**in_query.known, **names_of(WAITING_ARGUMENTS).known}, in_query.elsewhere)
    others = elsewhere or {}
    if places:
        in_body = placed(in_body)
    query_names = in_query.beside({**dict.fromkeys(in_body.known, "in the body"), **others})
    body_names = in_body.beside({**in_body.elsewhere, **dict.fromkeys(in_query.known, "in the query string"), **others})

    def row(view: View) -> View:
        view.declared = Route(  # type: ignore[attr-defined]
            lane,
            query,
            body,
            query_names,
            body_names,
            media_types=media_types,
            exact=exact,
            own_rules=own_rules,
            if_match=if_match,
            waits=waits,
        )
        return view

    return row


class RouteTable:
    """Routes by Flask's endpoint, which is one function: all its methods are alike."""

    def __init__(self, access: Mapping[str, Access] = ROUTES) -> None:
        self._routes: dict[str, Route] = {}
        self._access = access
        self._access_by_rule: dict[tuple[str, str], Access] = {}
        """What routes ask of their callers, by rule and method."""

    def find(self, endpoint: str | None) -> Route | None:
        """Return the row of an endpoint, None for a request that fits no route."""
        return None if endpoint is None else self._routes.get(endpoint)

    def fill(self, app: Flask) -> None:
        """Add all routes of the application.

        Raises ConfigurationError naming the first that declares nothing, or that the table of access does not have.
        """
        for rule in app.url_map.iter_rules():
            declared = getattr(app.view_functions[rule.endpoint], "declared", None)
            if declared is None:
                methods = "/".join(sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}))
                raise ConfigurationError(
                    f"The route {methods} {rule.rule} ({rule.endpoint}) declares nothing: nobody knows what it waits "
                    "for and takes"
                )
            self._routes[rule.endpoint] = self._with_database(declared, rule)
            for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
                self.access(rule.rule, method)

    def _with_database(self, declared: Route, rule: Rule) -> Route:
        """Return the row of a route with what it makes of `database` in its query string: those of collections take it,
        and others that name any refuse it, because what they would do in the default one is not what was meant."""
        if declared.own_rules:
            return declared
        if _OF_COLLECTIONS.match(rule.rule):
            known = Names({**declared.query_names.known, DATABASE: None}, declared.query_names.elsewhere)
            in_body = declared.body_names
            elsewhere = in_body.beside({**in_body.elsewhere, DATABASE: "in the query string"})
            return replace(declared, query_names=known, body_names=elsewhere, in_database=True)
        methods = (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if all(self.access(rule.rule, method).names is Naming.NOWHERE for method in methods):
            return declared
        names = declared.query_names
        return replace(declared, query_names=names.beside({**names.elsewhere, DATABASE: _FOR_COLLECTIONS}))

    def access(self, rule: str, method: str) -> Access:
        """Return what a route asks of its caller. Raises ConfigurationError when the table of access lacks it."""
        method = "GET" if method == "HEAD" else method
        row = self._access_by_rule.get((rule, method))
        if row is not None:
            return row
        row = self._access.get(f"{method} {_CONVERTED.sub(NAME_ALONE, rule)}")
        if row is None:
            raise ConfigurationError(
                f"The route {method} {rule} is not in the table of access: nobody knows who may call it"
            )
        self._access_by_rule[rule, method] = row
        return row


def register(app: Flask, *modules: ModuleType) -> None:
    """Serve the routes of these modules. Raises ConfigurationError for one that declares nothing, or that the table of
    access does not have."""
    for module in modules:
        app.register_blueprint(module.blueprint)
    table: RouteTable = app.extensions["rag.routes"]
    table.fill(app)
