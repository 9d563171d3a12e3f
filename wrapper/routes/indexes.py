"""The doctor by hand: what is known of a collection's index, a look at it, and its rebuild."""

from __future__ import annotations

from flask import Blueprint, Response

from wrapper.bodies import json_response
from wrapper.lanes import Lane
from wrapper.requests_in import store
from wrapper.route_table import declare

blueprint = Blueprint("indexes", __name__)


@blueprint.get("/collections/<name>/index")
@declare(Lane.READ)
def get_index(name: str) -> Response:
    return json_response(store().index(name))


@blueprint.post("/collections/<name>/index/check")
@declare(Lane.WRITE)
def check_index(name: str) -> Response:
    return json_response(store().check_index(name), 202)


@blueprint.post("/collections/<name>/index/rebuild")
@declare(Lane.WRITE)
def rebuild_index(name: str) -> Response:
    return json_response(store().rebuild_index(name), 202)
