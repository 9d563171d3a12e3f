"""`/api/chat`: conversations with a chat model, with retrieved context or without."""

from __future__ import annotations

from flask import Blueprint, Response
from werkzeug.routing import PathConverter

from interfaces.web import current_request
from interfaces.web.current_request import layers
from schemas.wire.chat import CHAT, chat_answer, conversation, forgotten_conversation
from schemas.wire.error_bodies import error_body_with_short_word
from wrapper.web.bodies import json_response
from wrapper.web.error_statuses import spell_errors
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import body
from wrapper.web.route_table import declare


class ConversationId(PathConverter):
    """The id of a conversation in a path, which may be any text, slashes included."""

    regex = r"[\s\S]+"
    part_isolating = False


blueprint = Blueprint("chat", __name__, url_prefix="/api/chat")
spell_errors(blueprint, error_body_with_short_word)


@blueprint.post("")
@declare(Lane.SERVICE, body=CHAT)
def chat() -> Response:
    return json_response(chat_answer(layers().chat.answer(body()["request"], owner=current_request.owner())))


@blueprint.get("/<conversation_id:conversation_id>")
@declare(Lane.READ)
def show(conversation_id: str) -> Response:
    messages = layers().chat.conversation(conversation_id, owner=current_request.owner())
    return json_response(conversation(conversation_id, messages))


@blueprint.delete("/<conversation_id:conversation_id>")
@declare(Lane.WRITE)
def forget(conversation_id: str) -> Response:
    layers().chat.forget(conversation_id, owner=current_request.owner())
    return json_response(forgotten_conversation(conversation_id))
