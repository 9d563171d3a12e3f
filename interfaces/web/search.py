"""`/api/search`: a question to all oracles."""

from __future__ import annotations

from dataclasses import replace

from flask import Blueprint, Response

from interfaces.web import current_request
from interfaces.web.current_request import layers
from schemas.wire.search import SEARCH_REQUEST, search_answer
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import body, change_lane
from wrapper.web.route_table import declare

blueprint = Blueprint("search", __name__, url_prefix="/api")


@blueprint.post("/search")
@declare(Lane.EMBEDDING, body=SEARCH_REQUEST)
def search() -> Response:
    request = replace(body()["request"], asker=current_request.asker())
    if request.rerank is not None:
        change_lane(Lane.SERVICE)
    return json_response(search_answer(layers().search.search(request)))
