"""`/api/search`: a question to all oracles."""

from __future__ import annotations

from dataclasses import replace

from flask import Blueprint, Response

from interfaces.http import asking
from interfaces.http.layers import layers
from schemas.wire_search import SEARCH_REQUEST, search_answer
from wrapper.bodies import json_response
from wrapper.lanes import Lane
from wrapper.requests_in import body
from wrapper.route_table import declare

blueprint = Blueprint("search", __name__, url_prefix="/api")


@blueprint.post("/search")
@declare(Lane.EMBEDDING, body=SEARCH_REQUEST)
def search() -> Response:
    request = replace(body()["request"], owner=asking.owner())
    return json_response(search_answer(layers().search.search(request)))
