"""`/api/chat`: conversations with a chat model, with retrieved context or without."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from interfaces.passages.shortfalls import shortfalls_of
from interfaces.web.current_request import layers
from interfaces.web.event_streams import event_stream
from schemas.access.callers import Scope, current
from schemas.contracts.chat import ChatTurn, Thought
from schemas.wire.chat import CHAT, chat_answer, chat_event, conversation, forgotten_conversation
from schemas.wire.checked_fields import OF_OWNER
from schemas.wire.error_bodies import error_body_with_short_word
from wrapper.web.bodies import json_response
from wrapper.web.callers import begin_chat, require, unwanted_watch
from wrapper.web.error_statuses import spell_errors
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, body, unknown
from wrapper.web.route_table import declare

blueprint = Blueprint("chat", __name__, url_prefix="/api/chat")
spell_errors(blueprint, error_body_with_short_word)


@blueprint.post("")
@declare(Lane.SERVICE, body=CHAT)
def chat() -> Response:
    asked, asker = body(), current().chat_asker
    if asked["request"].use_rag:
        require(Scope.READ)
    begin_chat()
    if not asked["streamed"]:
        turn = layers().chat.answer(asked["request"], asker=asker)
        unknown().say(*shortfalls_of(turn))
        return json_response(chat_answer(turn))
    is_unwanted = unwanted_watch()
    parts = layers().chat.stream(asked["request"], asker=asker, is_unwanted=is_unwanted)
    warnings = unknown().take()

    def spell(part: str | Thought | ChatTurn) -> dict[str, Any]:
        return chat_event(part, [*warnings, *(shortfalls_of(part) if isinstance(part, ChatTurn) else ())])

    return event_stream(parts, spell, error_body_with_short_word, is_unwanted)


@blueprint.get("/<any_id:conversation_id>")
@declare(Lane.READ, query=OF_OWNER)
def show(conversation_id: str) -> Response:
    found = layers().chat.conversation(conversation_id, asker=current().chat_asker, **arguments())
    return json_response(conversation(found))


@blueprint.delete("/<any_id:conversation_id>")
@declare(Lane.WRITE, query=OF_OWNER)
def forget(conversation_id: str) -> Response:
    layers().chat.forget(conversation_id, asker=current().chat_asker, **arguments())
    return json_response(forgotten_conversation(conversation_id))
