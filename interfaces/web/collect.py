"""`/api/collect`: several collections asked with the right words."""

from __future__ import annotations

from flask import Blueprint, Response

from interfaces.web.current_request import layers
from schemas.access.callers import current
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
    caller, conversation_id = current(), asked["conversation_id"]
    if conversations is not None and conversation_id is not None and not caller.owns_nothing:
        request = conversations.follow(conversation_id, request, owner=caller.owner)
    return json_response(collected_answer(layers().collector.collect(request)))
