"""Every route declares what it waits for and takes, or the service does not start."""

from types import SimpleNamespace

import pytest
from flask import Blueprint, Flask

from schemas.access.callers import Scope
from schemas.access.table import Access
from schemas.errors import ConfigurationError
from wrapper.web.bodies import NDJSON
from wrapper.web.lanes import Lane
from wrapper.web.route_table import RouteTable, declare, register


@pytest.fixture
def app():
    app = Flask("routes", static_folder=None)
    app.extensions["rag.routes"] = RouteTable({f"PUT /{name}": Access(Scope.WRITE) for name in ("tidy", "move")})
    return app


def _module(**views):
    blueprint = Blueprint("shelves", __name__)
    for name, view in views.items():
        blueprint.add_url_rule(f"/{name}", name, view, methods=["PUT"])
    return SimpleNamespace(blueprint=blueprint)


def test_what_a_route_declares_is_found_by_its_endpoint(app):
    tidy = declare(Lane.WRITE, media_types=(NDJSON,))(lambda: "")
    register(app, _module(tidy=tidy, move=declare(Lane.READ, exact=True)(lambda: "")))
    table = app.extensions["rag.routes"]
    found = table.find("shelves.tidy"), table.find("shelves.move")
    assert [(each.lane, each.media_types, each.exact) for each in found] == [
        (Lane.WRITE, (NDJSON,), False),
        (Lane.READ, ("application/json",), True),
    ]
    assert (table.find(None), table.find("shelves.burn")) == (None, None)


def test_a_route_that_declares_nothing_stops_the_start(app):
    with pytest.raises(ConfigurationError, match=r"PUT /move \(shelves\.move\) declares nothing"):
        register(app, _module(tidy=declare(Lane.WRITE)(lambda: ""), move=lambda: ""))


def test_a_route_that_the_table_of_access_lacks_stops_the_start(app):
    with pytest.raises(ConfigurationError, match="The route PUT /burn is not in the table of access"):
        register(app, _module(tidy=declare(Lane.WRITE)(lambda: ""), burn=declare(Lane.WRITE)(lambda: "")))
