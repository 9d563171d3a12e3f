"""`/rerank`: documents in the order in which they answer a question."""

from __future__ import annotations

from flask import Blueprint, Response

from interfaces.web.current_request import layers
from schemas.wire.rerank import RERANK, rerank_answer
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import body, change_lane
from wrapper.web.route_table import declare

blueprint = Blueprint("rerank", __name__)


@blueprint.post("/rerank")
@declare(Lane.EMBEDDING, body=RERANK)
def rerank() -> Response:
    request, reranking = body()["request"], layers().reranking
    if reranking.connection_of(request.connection) is not None:
        change_lane(Lane.SERVICE)
    return json_response(rerank_answer(reranking.rerank(request)))
