"""Bodies of `/api/chat`, and its answers as JSON."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from marshmallow import ValidationError, fields, post_load, validate

from schemas.bounds import MAX_RESULTS
from schemas.contracts.chat import (
    PLACES,
    ROLES,
    ChatRequest,
    ChatSource,
    ChatTurn,
    Citation,
    Conversation,
    Message,
    StoredMessage,
    Thought,
)
from schemas.contracts.text_documents import DEFAULT_TOP_K, MAX_TOP_K, Filters
from schemas.errors import InvalidInputError
from schemas.metadata import check_metadata
from schemas.where import EVERYTHING
from schemas.wire.body import Body
from schemas.wire.checked_fields import Flag, Share, Words, ownership
from schemas.wire.fields import Count, Filtered, ModelName, Number, Text
from schemas.wire.search import AskingCollections, search_receipt
from schemas.wire.text_documents import FiltersObject

MAX_MESSAGES = 1_000
RESERVED_OPTIONS = ("model", "messages", "stream")
"""Names that `options` must not have: they have fields of their own, or are decided here."""

Json = dict[str, Any]


def check_conversation_id(value: str) -> None:
    """Raise ValidationError for an id that no path can carry: proxies and clients resolve `.` and `..`."""
    if len(value) > 200:
        raise ValidationError("must have at most 200 characters")
    if any(unicodedata.category(character) == "Cc" for character in value):
        raise ValidationError("must have no control characters")
    if not {".", ".."}.isdisjoint(value.split("/")):
        raise ValidationError("must not be '.' or '..', nor have such a part between slashes")


class OneMessage(Body):
    role = Text(required=True, validate=validate.OneOf(ROLES))
    content = Text(required=True)

    @post_load
    def _to_message(self, loaded: Json, **_: Any) -> Message:
        return Message(**loaded)


class KnownOptions(Body):
    """Options whose values mean the same everywhere."""

    temperature = Number(validate=validate.Range(min=0, max=10))
    max_tokens = Count(least=1, most=1_000_000)
    num_predict = Count(least=1, most=1_000_000)


class Options(fields.Field[Json]):
    """Options of a model, under the names its server has for them, each passed on as it is."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Json:
        if not isinstance(value, dict):
            raise ValidationError("must be an object")
        for name in RESERVED_OPTIONS:
            if name in value:
                raise ValidationError({name: "is no option of a model: the service sets it"})
        given = {name: option for name, option in value.items() if option is not None}
        try:
            check_metadata(given)
        except InvalidInputError as error:
            raise ValidationError(error.message.removeprefix("metadata ")) from None
        return given | KNOWN_OPTIONS.load({name: given[name] for name in KNOWN_OPTIONS.fields if name in given})


KNOWN_OPTIONS = KnownOptions()


class Chat(AskingCollections, Filtered):
    connection = Text(load_default=None)
    model = ModelName(load_default=None)
    messages = fields.List(fields.Nested(OneMessage), load_default=None, validate=validate.Length(max=MAX_MESSAGES))
    message = Words(load_default=None)
    system = Text(load_default=None)
    options = Options(load_default=dict)
    conversation_id = Words(data_key="conversationId", load_default=None, validate=check_conversation_id)
    use_rag = Flag(data_key="useRag", load_default=False)
    rag_top_k = Count(data_key="ragTopK", least=1, most=MAX_TOP_K, load_default=DEFAULT_TOP_K)
    rag_filters = fields.Nested(FiltersObject, data_key="ragFilters", load_default=Filters)
    min_relevance = Share(load_default=None)
    rerank = Text(load_default=None)
    max_per_document = Count(least=1, most=MAX_RESULTS, load_default=None)
    stream = Flag(load_default=False)
    shared = Flag(load_default=None)

    @post_load
    def _to_request(self, loaded: Json, **_: Any) -> Json:
        streamed = loaded.pop("stream")
        messages, message = loaded.pop("messages"), loaded.pop("message")
        if loaded["where"] != EVERYTHING and not loaded["use_rag"]:
            raise ValidationError("goes with useRag: nothing is searched without it", "where")
        if not messages and message is None:
            raise ValidationError("is required", "messages")
        said = [*(messages or ()), *([Message("user", message)] if message is not None else ())]
        if not any(each.role == "user" and each.content.strip() for each in said):
            raise ValidationError("must have a message of the role user that is not blank", "messages")
        return {
            "request": ChatRequest(
                messages=tuple(said),
                is_continued=not messages,
                **self.one_field(loaded),
            ),
            "streamed": streamed,
        }


CHAT = Chat()


def chat_answer(turn: ChatTurn) -> Json:
    """Spell an answer under `message`, as the contract does, and under `response`, as earlier clients read it; also why
    it ends, and the thoughts where they are shown.

    An answer with retrieval also tells its citations, and how relevant the best passage is.
    """
    said = {
        "message": turn.answer,
        "response": turn.answer,
        "conversationId": turn.conversation_id,
        "model": turn.model,
    }
    answer: Json = {
        "status": "success",
        "data": said,
        "finishReason": turn.finish_reason,
        **({"thoughts": turn.thoughts} if turn.thoughts else {}),
        "ragUsed": turn.rag_used,
        "ragSources": _sources(turn.sources),
    }
    if turn.rag_used:
        answer |= {"citations": [_citation(each) for each in turn.citations], "relevance": turn.relevance}
    if turn.search is not None:
        asked = {"strategy": turn.search.strategy, "query_text": turn.search.query_text}
        answer["receipt"] = asked | search_receipt(turn.search.receipt)
    return answer


def chat_event(part: str | Thought | ChatTurn, warnings: Sequence[str]) -> Json:
    """Spell a part of a streamed answer: `{delta}` for a piece of its text, with a `thought` for one of thoughts.

    The whole, at its end, is what `chat_answer` spells beside `done`, with the warnings of an answer in one piece."""
    if isinstance(part, str):
        return {"delta": part}
    if isinstance(part, Thought):
        return {"delta": "", "thought": part.text}
    whole = {"done": True, **chat_answer(part)}
    return whole | {"warnings": warnings} if warnings else whole


def _citation(citation: Citation) -> Json:
    passage = citation.passage
    if passage is None:
        return {"number": citation.number, "collection": None, "id": None, "valid": False}
    return {
        "number": citation.number,
        "collection": passage.collection,
        "id": passage.chunk_id,
        "valid": True,
        "source": passage.source,
        "title": passage.title,
        **{name: passage.metadata[name] for name in PLACES if name in passage.metadata},
    }


def _sources(sources: tuple[ChatSource, ...]) -> list[Json]:
    return [
        {
            "text": each.text,
            "score": each.score,
            "relevance": each.relevance,
            "source": each.source,
            "title": each.title,
            "documentId": each.document_id,
            "collection": each.collection,
            **each.place,
        }
        for each in sources
    ]


def conversation(found: Conversation) -> Json:
    messages = [_stored_message(each) for each in found.messages]
    return {"conversationId": found.id, **ownership(found.of), "messages": messages}


def _stored_message(message: StoredMessage) -> Json:
    said = {"role": message.role, "content": message.content, "createdAt": message.created_at}
    if message.role != "assistant":
        return said
    told = {"ragUsed": message.rag_used, "ragSources": _sources(message.rag_sources)}
    return said | told | {"finishReason": message.finish_reason}


def forgotten_conversation(conversation_id: str) -> Json:
    return {"status": "deleted", "conversationId": conversation_id}
