"""`POST /v1/chat/completions`: the service's chat model, answering from documents as the model `rag`, or another one.

It is the chat of `/api/chat`, but that no conversation is kept: a client of this protocol sends all of it each time.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import Any

from flask import Blueprint, Response

from interfaces.openai.face import body_of, collections_of, note_active
from interfaces.openai.known_models import chat_of
from interfaces.passages.shortfalls import shortfalls_of
from interfaces.web.current_request import layers
from interfaces.web.event_streams import event_stream
from schemas.access.callers import Scope, current
from schemas.contracts.chat import ChatRequest, ChatTurn, Thought
from schemas.errors import RagError
from schemas.names import check_collection_patterns, is_pattern
from schemas.where import all_of
from schemas.wire.openai.chat_completions import CHAT_COMPLETION, IN_TOOL, TAKEN, completion, completion_chunks
from schemas.wire.openai.errors import error_body
from wrapper.web.bodies import json_response
from wrapper.web.callers import begin_chat, require, unwanted_watch
from wrapper.web.error_statuses import status_of
from wrapper.web.lanes import Lane
from wrapper.web.route_table import declare

DONE = b"data: [DONE]\n\n"

blueprint = Blueprint("openai_chat", __name__, url_prefix="/v1/chat/completions")


@blueprint.post("")
@declare(Lane.SERVICE, body=CHAT_COMPLETION, own_rules=True, exact=True)
def complete() -> Response:
    asked = body_of(CHAT_COMPLETION, TAKEN, IN_TOOL)
    request, model = _request(asked), asked["model"]
    if request.use_rag:
        require(Scope.READ)
        note_active([each for each in request.collections or () if not is_pattern(each)])
    begin_chat()
    name, created, asker = f"chatcmpl-{uuid.uuid4().hex}", int(time.time()), current().chat_asker
    if not asked["streamed"]:
        turn = layers().chat.answer(request, asker=asker)
        return json_response(completion(name, created, model, turn) | _warnings(turn))
    is_unwanted = unwanted_watch()
    parts = layers().chat.stream(request, asker=asker, is_unwanted=is_unwanted)
    chunk_of = completion_chunks(name, created, model, with_usage=asked["with_usage"])
    return event_stream(parts, lambda part: chunk_of(part) | _warnings(part), _spelt_error, is_unwanted, DONE)


def _warnings(part: str | Thought | ChatTurn) -> dict[str, Any]:
    said = shortfalls_of(part) if isinstance(part, ChatTurn) else []
    return {"warnings": said} if said else {}


def _request(asked: dict[str, Any]) -> ChatRequest:
    """Return the request to the chat model. Raises ModelNotFoundError for an unknown one."""
    request: ChatRequest = asked["request"]
    connection, from_documents = chat_of(asked["model"])
    request = replace(request, connection=connection, use_rag=request.use_rag or from_documents)
    if asked["stores"] is not None:
        names = check_collection_patterns(collections_of(asked["stores"]), field="vector_store_ids")
        request = replace(request, collections=names)
    if (tool := asked["tool"]) is not None:
        request = replace(
            request,
            rag_top_k=tool["max_num_results"],
            where=all_of(request.where, tool["filters"]),
            min_relevance=tool["ranking_options"].get("score_threshold"),
        )
    return request


def _spelt_error(error: RagError) -> dict[str, Any]:
    return error_body(error, status_of(type(error)))
