"""`/api/search`: a question to all oracles."""

from __future__ import annotations

from dataclasses import replace

from flask import Blueprint, Response

from interfaces.http import asking
from interfaces.http.layers import layers
from schemas.wire_search import SEARCH_REQUEST, search_answer
from wrapper.bodies import json_response
from wrapper.requests_in import body, takes
from wrapper.route_table import EMBEDS

blueprint = Blueprint("search", __name__, url_prefix="/api")

ROUTES = {"search": EMBEDS}


@blueprint.post("/search")
@takes(body=SEARCH_REQUEST)
def search() -> Response:
    request = replace(body()["request"], owner=asking.owner())
    return json_response(search_answer(layers().search.search(request)))
