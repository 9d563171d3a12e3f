"""Databases, which collections are in: which ones there are. Clients of Chroma make and delete them."""

from __future__ import annotations

from flask import Blueprint, Response

from schemas.wire.storage.database import databases_answer
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import store
from wrapper.web.route_table import declare

blueprint = Blueprint("databases", __name__)


@blueprint.get("/databases")
@declare(Lane.READ)
def list_databases() -> Response:
    return json_response(databases_answer(store().namespaces.everywhere()))
