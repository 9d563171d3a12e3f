"""The table of routes: what each waits for and which bodies it takes. A route that is not in it stops the start.

Each module of routes has its part of the table beside its blueprint (`ROUTES`); `register` joins them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

from flask import Flask
from werkzeug.routing import Map

from schemas.errors import ConfigurationError
from wrapper.bodies import JSON
from wrapper.lanes import Lane


@dataclass(frozen=True, slots=True)
class Route:
    """What is decided about a route before it is called. `takes`: the media types of its body; one that reads no body
    lets nobody send another."""

    lane: Lane
    takes: tuple[str, ...] = (JSON,)


READS = Route(Lane.READ)
WRITES = Route(Lane.WRITE)
ASKS = Route(Lane.SERVICE)
EMBEDS = Route(Lane.EMBEDDING)


class RouteTable:
    """By Flask's endpoint, which is one function: all methods of it are alike."""

    def __init__(self) -> None:
        self._routes: dict[str, Route] = {}

    def add(self, blueprint: str, routes: Mapping[str, Route]) -> None:
        """The part of a blueprint, by the names of its functions."""
        self._routes |= {f"{blueprint}.{name}": route for name, route in routes.items()}

    def find(self, endpoint: str | None) -> Route | None:
        """None for a request that no route fits."""
        return None if endpoint is None else self._routes.get(endpoint)

    def check(self, url_map: Map) -> None:
        """Raises ConfigurationError naming the first route that is only in one of the two."""
        served = {str(rule.endpoint): rule for rule in url_map.iter_rules()}
        for endpoint, rule in served.items():
            if endpoint not in self._routes:
                methods = "/".join(sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}))
                raise ConfigurationError(
                    f"The route {methods} {rule.rule} ({endpoint}) is not in the table of routes: nobody knows what it "
                    "waits for and takes"
                )
        for endpoint in self._routes:
            if endpoint not in served:
                raise ConfigurationError(f"The table of routes has {endpoint}, which is no route")


def register(app: Flask, *modules: ModuleType) -> None:
    """Serve the routes of these modules. Raises ConfigurationError when their tables are not of just these routes."""
    table: RouteTable = app.extensions["rag.routes"]
    for module in modules:
        app.register_blueprint(module.blueprint)
        table.add(module.blueprint.name, module.ROUTES)
    table.check(app.url_map)
