"""`/api/collect`: several collections asked with the right words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flask import Blueprint, Response

from interfaces.http import asking
from interfaces.http.layers import layers
from schemas.collected import MATCH, Collected, CollectReceipt, CollectRequest
from schemas.wire_connections import COLLECT
from wrapper.bodies import json_response
from wrapper.lanes import Lane
from wrapper.requests_in import body
from wrapper.route_table import declare

blueprint = Blueprint("collect", __name__, url_prefix="/api")


@blueprint.post("/collect")
@declare(Lane.SERVICE, body=COLLECT)
def collect() -> Response:
    asked = body()
    request: CollectRequest = asked["request"]
    conversations = layers().conversations
    if conversations is not None and asked["conversation_id"] is not None:
        request = conversations.follow(asked["conversation_id"], request, owner=asking.owner())
    return json_response(_answer(layers().collector.collect(request)))


def _answer(collected: Collected) -> dict[str, Any]:
    results = [asdict(result) for result in collected.results]
    data = results[0] if collected.result == MATCH else results or None
    return {"result": collected.result, "data": data, "receipt": _receipt(collected.receipt)}


def _receipt(receipt: CollectReceipt) -> dict[str, Any]:
    return {
        "strategy": receipt.strategy,
        "query_text": receipt.query_text,
        "embeddings": {"generated": receipt.embeddings_generated, "reused": receipt.embeddings_reused},
        "collections": [
            {name: value for name, value in asdict(each).items() if name != "error" or value is not None}
            for each in receipt.collections
        ],
    }
