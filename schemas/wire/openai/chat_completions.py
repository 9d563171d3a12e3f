"""`/v1/chat/completions` as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from marshmallow import ValidationError, fields, post_load, validate

from schemas.contracts.chat import ChatRequest, ChatTurn, Message, Thought
from schemas.contracts.text_documents import DEFAULT_TOP_K
from schemas.field_names import Unknown, check_names, names_of, placed
from schemas.names import MAX_COLLECTIONS
from schemas.where import EVERYTHING
from schemas.wire.body import Body
from schemas.wire.chat import KNOWN_OPTIONS, MAX_MESSAGES, chat_answer
from schemas.wire.checked_fields import Flag
from schemas.wire.fields import Count, Filtered, ModelName
from schemas.wire.openai.filters import Filters
from schemas.wire.openai.store_search import Ranking

Json = dict[str, Any]

FILE_SEARCH = "file_search"
MOST_PASSAGES = 50
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
OPTIONS = ("temperature", "top_p", "stop", "seed", "presence_penalty", "frequency_penalty", "max_tokens")
"""What is passed on to the model as it is."""
TAKEN = ("functions", "function_call", "min_tokens", "tool_choice", "tool_ids", "filter_ids", "top_k", "verbosity")
"""What clients send that is near a name of ours, or is another product's name for one, and is not meant for it."""
REFUSED = ("functions", "audio", "prediction", "web_search_options")
"""What a client would miss if it were ignored."""


class OneMessage(fields.Field[Message]):
    """A message whose content is a text, or a list of texts."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Message:
        if not isinstance(value, dict):
            raise ValidationError("must be an object")
        role = value.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise ValidationError(f"must have a role of {', '.join(ROLES)}: tools are not called here")
        return Message(ROLES[role], _text(value.get("content")))  # type: ignore[arg-type]


class Stores(fields.Field[tuple[str, ...]]):
    """The ids of vector stores."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not value or not all(isinstance(each, str) and each for each in value):
            raise ValidationError("must be a list of ids")
        if len(value) > MAX_COLLECTIONS:
            raise ValidationError(f"must have at most {MAX_COLLECTIONS} elements")
        return tuple(dict.fromkeys(value))


class Unsupported(fields.Field[None]):
    """What a client would miss if it were ignored."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> None:
        raise ValidationError("is not supported here")


class ToolRanking(Ranking):
    hybrid_search = Unsupported()


class StreamOptions(Body):
    include_usage = Flag(load_default=False)


class FileSearch(Body):
    """A tool of the type `file_search`, in the form that OpenAI's Responses have for it."""

    vector_store_ids = Stores(load_default=None)
    max_num_results = Count(least=1, most=MOST_PASSAGES, load_default=DEFAULT_TOP_K)
    filters = Filters(load_default=EVERYTHING)
    ranking_options = fields.Nested(ToolRanking, load_default=dict)


class Tools(fields.Field[Json | None]):
    """At most one tool, of the type `file_search`."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Json | None:
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise ValidationError("must be a list of objects")
        if any(each.get("type") != FILE_SEARCH for each in value) or len(value) > 1:
            raise ValidationError(f"must be one of the type '{FILE_SEARCH}': functions are not called here")
        if value:
            check_names(value[0], OF_TOOL, Unknown(), path=f"{attr}.0.")
        try:
            loaded = FILE_SEARCH_TOOL.load(value[0]) if value else None
        except ValidationError as error:
            raise ValidationError({0: error.messages}) from None
        return loaded if isinstance(loaded, dict) else None


class ResponseFormat(fields.Field[None]):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> None:
        if not isinstance(value, dict) or value.get("type") != "text":
            raise ValidationError("must be of the type 'text'")


class ChatCompletion(Filtered):
    model = ModelName(required=True)
    messages = fields.List(OneMessage(), required=True, validate=validate.Length(min=1, max=MAX_MESSAGES))
    stream = Flag(load_default=False)
    stream_options = fields.Nested(StreamOptions, load_default=dict)
    n = Count(least=1, most=1, load_default=1)
    max_completion_tokens = Count(least=1, most=1_000_000, load_default=None)
    tools = Tools(load_default=None)
    vector_store_ids = Stores(load_default=None)
    response_format = ResponseFormat(load_default=None)

    @post_load(pass_original=True)
    def _to_request(self, loaded: Json, original: Json, **_: Any) -> Json:
        for name in REFUSED:
            if original.get(name):
                raise ValidationError("is not supported here", name)
        if not any(each.role == "user" and each.content.strip() for each in loaded["messages"]):
            raise ValidationError("must have a message of the role user that is not blank", "messages")
        tool = loaded["tools"]
        if tool is not None and loaded["vector_store_ids"] is not None and tool["vector_store_ids"] is not None:
            raise ValidationError("goes without those of the tool: they say the same", "vector_store_ids")
        stores = loaded["vector_store_ids"] or (tool or {}).get("vector_store_ids")
        request = ChatRequest(
            tuple(loaded["messages"]),
            options=_options(original, loaded["max_completion_tokens"]),
            use_rag=stores is not None or tool is not None or loaded["where"] != EVERYTHING,
            where=loaded["where"],
            is_kept=False,
        )
        return {
            "model": loaded["model"],
            "stores": stores,
            "tool": tool,
            "request": request,
            "streamed": loaded["stream"],
            "with_usage": loaded["stream_options"].get("include_usage", False),
        }


FILE_SEARCH_TOOL, CHAT_COMPLETION = FileSearch(), ChatCompletion()
OF_TOOL = placed(names_of(FILE_SEARCH_TOOL))
IN_TOOL = dict.fromkeys(("filters", "max_num_results", "ranking_options", "score_threshold"), "in the tool file_search")
"""What a tool says, where a client may say it beside the tools, with the words for its place."""


def completion(name: str, created: int, model: str, turn: ChatTurn) -> Json:
    """Spell an answer; where documents were asked, `rag` has its citations and sources."""
    message = {"role": "assistant", "content": turn.answer, "refusal": None}
    if turn.thoughts:
        message["reasoning_content"] = turn.thoughts
    answer: Json = {
        "id": name,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": turn.finish_reason, "logprobs": None}],
    }
    return answer | _usage(turn) | _rag(turn)


def completion_chunks(
    name: str, created: int, model: str, *, with_usage: bool
) -> Callable[[str | Thought | ChatTurn], Json]:
    """Return what spells the parts of a streamed answer, one after the other; the last has the whole turn's `rag`."""
    is_first = True

    def spell(part: str | Thought | ChatTurn) -> Json:
        nonlocal is_first
        ending = part.finish_reason if isinstance(part, ChatTurn) else None
        delta: Json = {"role": "assistant"} if is_first else {}
        if isinstance(part, Thought):
            delta["reasoning_content"] = part.text
        elif not isinstance(part, ChatTurn):
            delta["content"] = part
        is_first = False
        chunk: Json = {
            "id": name,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": ending, "logprobs": None}],
        }
        if not isinstance(part, ChatTurn):
            return chunk
        return chunk | (_usage(part) if with_usage else {}) | _rag(part)

    return spell


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else None
    if parts is None or not all(
        isinstance(each, dict) and each.get("type") == "text" and isinstance(each.get("text"), str) for each in parts
    ):
        raise ValidationError("must have a content that is a text, or a list of parts of the type 'text'")
    return "\n".join(each["text"] for each in parts)


def _options(given: Json, max_completion_tokens: int | None) -> Json:
    options = {name: given[name] for name in OPTIONS if given.get(name) is not None}
    if max_completion_tokens is not None:
        options["max_tokens"] = max_completion_tokens
    known = {name: options[name] for name in KNOWN_OPTIONS.fields if name in options}
    for name in ("top_p", "presence_penalty", "frequency_penalty", "seed"):
        if isinstance(options.get(name, 0), bool) or not isinstance(options.get(name, 0), int | float):
            raise ValidationError("must be a number", name)
    stop = options.get("stop", "")
    if not isinstance(stop, str) and not (isinstance(stop, list) and all(isinstance(each, str) for each in stop)):
        raise ValidationError("must be a text or a list of texts", "stop")
    return options | KNOWN_OPTIONS.load(known)


def _usage(turn: ChatTurn) -> Json:
    """Return the tokens, where the model's server counts them."""
    if turn.prompt_tokens is None or turn.answer_tokens is None:
        return {}
    return {
        "usage": {
            "prompt_tokens": turn.prompt_tokens,
            "completion_tokens": turn.answer_tokens,
            "total_tokens": turn.prompt_tokens + turn.answer_tokens,
        }
    }


def _rag(turn: ChatTurn) -> Json:
    if not turn.rag_used:
        return {}
    told = chat_answer(turn)
    return {
        "rag": {
            "citations": told["citations"],
            "sources": told["ragSources"],
            "relevance": told["relevance"],
            "receipt": told.get("receipt", {}),
        }
    }
