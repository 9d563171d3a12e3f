"""The doctor by hand: what is known of a collection's index, a look at it, and its rebuild."""

from __future__ import annotations

from flask import Blueprint, Response

from wrapper.bodies import json_response
from wrapper.requests_in import store
from wrapper.route_table import READS, WRITES

blueprint = Blueprint("indexes", __name__)

ROUTES = {"get_index": READS, "check_index": WRITES, "rebuild_index": WRITES}


@blueprint.get("/collections/<name>/index")
def get_index(name: str) -> Response:
    return json_response(store().index(name))


@blueprint.post("/collections/<name>/index/check")
def check_index(name: str) -> Response:
    return json_response(store().check_index(name), 202)


@blueprint.post("/collections/<name>/index/rebuild")
def rebuild_index(name: str) -> Response:
    return json_response(store().rebuild_index(name), 202)
