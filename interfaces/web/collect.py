"""`/api/collect`: several collections asked with the right words."""

from __future__ import annotations

from flask import Blueprint, Response

from interfaces.web import current_request
from interfaces.web.current_request import layers
from schemas.contracts.collect import CollectRequest
from schemas.wire.collect import COLLECT, collected_answer
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import body
from wrapper.web.route_table import declare

blueprint = Blueprint("collect", __name__, url_prefix="/api")


@blueprint.post("/collect")
@declare(Lane.SERVICE, body=COLLECT)
def collect() -> Response:
    asked = body()
    request: CollectRequest = asked["request"]
    conversations = layers().conversations
    if conversations is not None and asked["conversation_id"] is not None:
        request = conversations.follow(asked["conversation_id"], request, owner=current_request.owner())
    return json_response(collected_answer(layers().collector.collect(request)))
