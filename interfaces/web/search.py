"""`/api/search`: a question to all oracles; `/api/collect`: several collections asked with the right words; `/rerank`:
documents in the order in which they answer a question."""

from __future__ import annotations

from dataclasses import replace

from flask import Blueprint, Response

from interfaces.web.current_request import layers
from registry.stored_connections import ConnectionNotFoundError
from schemas.access.callers import Caller, Scope, current
from schemas.contracts.collect import CollectRequest, SelectedCollection
from schemas.errors import TooManyRequestsError
from schemas.wire.collect import COLLECT, collected_answer
from schemas.wire.rerank import RERANK, rerank_answer
from schemas.wire.search import SEARCH_REQUEST, search_answer
from wrapper.audit.noted import note_missing
from wrapper.web.bodies import json_response
from wrapper.web.callers import begin_chat
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import body, change_lane
from wrapper.web.route_table import declare

blueprint = Blueprint("search", __name__)

OWN = "local"
"""The provider of the collections of this service."""


@blueprint.post("/api/search")
@declare(Lane.EMBEDDING, body=SEARCH_REQUEST)
def search() -> Response:
    request = replace(body()["request"], asker=current().asker)
    if request.rerank is not None:
        change_lane(Lane.SERVICE)
    return json_response(search_answer(layers().search.search(request)))


@blueprint.post("/rerank")
@declare(Lane.EMBEDDING, body=RERANK)
def rerank() -> Response:
    request, reranking = body()["request"], layers().reranking
    if reranking.connection_of(request.connection) is not None:
        change_lane(Lane.SERVICE)
    return json_response(rerank_answer(reranking.rerank(request)))


@blueprint.post("/api/collect")
@declare(Lane.SERVICE, body=COLLECT)
def collect() -> Response:
    asked = body()
    request: CollectRequest = asked["request"]
    conversations = layers().conversations
    caller, conversation_id = current(), asked["conversation_id"]
    if conversations is not None and conversation_id is not None and not caller.owns_nothing:
        by_rule = conversations.asks_model and not _may_chat(caller)
        request = conversations.follow(conversation_id, request, owner=caller.owner, by_rule=by_rule)
    note_missing(each.name for each in request.collections if not caller.knows(each.name) and _is_own(each))
    return json_response(collected_answer(layers().collector.collect(request)))


def _may_chat(caller: Caller) -> bool:
    """Return whether the chat model may be asked for a caller once more today, and count that."""
    if not caller.may(Scope.CHAT):
        return False
    try:
        begin_chat()
    except TooManyRequestsError:
        return False
    return True


def _is_own(selected: SelectedCollection) -> bool:
    """Return whether a collection is one of this service: others have their own callers."""
    try:
        return layers().connections.find(selected.service).provider == OWN
    except ConnectionNotFoundError:
        return False
