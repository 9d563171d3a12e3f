"""The index of a collection: a report about it, and a check and a rebuild on demand."""

from __future__ import annotations

from flask import Blueprint, Response

from schemas.wire.storage.index import index_answer
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import store
from wrapper.web.route_table import declare

blueprint = Blueprint("indexes", __name__)


@blueprint.get("/collections/<name>/index")
@declare(Lane.READ)
def get_index(name: str) -> Response:
    return json_response(index_answer(store().indexes.of(name)))


@blueprint.post("/collections/<name>/index/check")
@declare(Lane.WRITE)
def check_index(name: str) -> Response:
    return json_response(index_answer(store().indexes.check(name)), 202)


@blueprint.post("/collections/<name>/index/rebuild")
@declare(Lane.WRITE)
def rebuild_index(name: str) -> Response:
    return json_response(index_answer(store().indexes.rebuild(name)), 202)
