"""The index of a collection: a report about it, and a check and a rebuild on demand."""

from __future__ import annotations

from flask import Blueprint, Response

from schemas.wire.storage.index import REBUILDING_ARGUMENTS, index_answer
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, store
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
@declare(Lane.WRITE, query=REBUILDING_ARGUMENTS)
def rebuild_index(name: str) -> Response:
    return json_response(index_answer(store().indexes.rebuild(name, **arguments())), 202)
