"""Every route says what it waits for and takes, or the service does not start."""

from types import SimpleNamespace

import pytest
from flask import Blueprint, Flask

from schemas.errors import ConfigurationError
from wrapper.route_table import READS, WRITES, RouteTable, register


@pytest.fixture
def app():
    app = Flask("routes", static_folder=None)
    app.extensions["rag.routes"] = RouteTable()
    return app


def _module(*served, **table):
    blueprint = Blueprint("shelves", __name__)
    for name in served:
        blueprint.add_url_rule(f"/{name}", name, lambda: "", methods=["PUT"])
    return SimpleNamespace(blueprint=blueprint, ROUTES=table)


def test_a_route_is_found_by_its_endpoint(app):
    register(app, _module("tidy", "move", tidy=WRITES, move=READS))
    table = app.extensions["rag.routes"]
    assert (table.find("shelves.tidy"), table.find("shelves.move")) == (WRITES, READS)
    assert table.find(None) is None


def test_a_route_that_the_table_does_not_know_stops_the_start(app):
    with pytest.raises(ConfigurationError, match=r"PUT /move \(shelves\.move\) is not in the table"):
        register(app, _module("tidy", "move", tidy=WRITES))


def test_a_row_of_the_table_that_is_no_route_stops_the_start(app):
    with pytest.raises(ConfigurationError, match=r"shelves\.move, which is no route"):
        register(app, _module("tidy", tidy=WRITES, move=READS))
