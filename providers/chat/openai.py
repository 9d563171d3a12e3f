"""Chat with any server that speaks OpenAI's protocol: OpenAI, vLLM, LM Studio, llama.cpp, LocalAI, …"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from providers.base import Registry
from providers.chat.base import (
    ChatAnswer,
    ChatProvider,
    IsUnwanted,
    Piece,
    Said,
    finish_said,
    member,
    model_said,
    text_said,
    thought_said,
    token_count,
)
from providers.models import models_of
from providers.outbound.answer_streams import event_data
from providers.outbound.recognition import Sign
from providers.outbound.refusals import RefusedRequestError, exceeds_context
from schemas.configuration import JsonSchema, read_schema
from schemas.connections import ModelInfo
from schemas.contracts.chat import STOP

END = b"[DONE]"
"""The event after the last one of an answer. It is no JSON, so `_events` writes it as `AFTER_ALL`."""
AFTER_ALL = b'{"done": true}'


class OpenAIProvider(ChatProvider):
    """Asks `POST {url}/chat/completions`, which streams server-sent events, or answers in one piece all the same.

    OpenAI's newer models take the limit of an answer under another name, which is tried when the first is refused, and
    used from then on when the refusal of the connection's own model names it.
    """

    id = "openai"
    display_name = "OpenAI-compatible server"
    sign = Sign("/models", "object", "list")
    description = "Chat with OpenAI, vLLM, LM Studio, llama.cpp, LocalAI and others of that protocol"

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("llm-openai")

    def __init__(self, *how: Any, **options: Any) -> None:
        super().__init__(*how, **options)
        self._takes_newer_name = False

    def models(self) -> list[ModelInfo]:
        return models_of(self._listed(), self.kind)

    def check(self) -> dict[str, Any]:
        return {"models_count": len(self._listed())}

    def _listed(self) -> list[Any]:
        listed = member(self._service.get("/models"), "data")
        if not isinstance(listed, list):
            raise self._unusable("no list of models")
        return listed

    def _chat(self, messages: list[dict[str, str]], options: dict[str, Any]) -> ChatAnswer:
        return self._chat_by(self.model, messages, options)

    def _chat_by(self, model: str, messages: list[dict[str, str]], options: dict[str, Any]) -> ChatAnswer:
        asked = self._request(model, messages, options)
        try:
            answer = self._service.post("/chat/completions", asked)
        except RefusedRequestError as error:
            answer = self._service.post("/chat/completions", self._by_newer_name(asked, error))
        return ChatAnswer(
            _text(member(answer, "choices", 0, "message")) or "",
            str(member(answer, "model") or model),
            token_count(member(answer, "usage", "prompt_tokens")),
            token_count(member(answer, "usage", "completion_tokens")),
            finish_said(member(answer, "choices", 0, "finish_reason")) or STOP,
            thought_said(member(answer, "choices", 0, "message")) or "",
        )

    def _stream(self, messages: list[dict[str, str]], options: dict[str, Any], is_unwanted: IsUnwanted | None) -> Said:
        return self._stream_by(self.model, messages, options, is_unwanted)

    def _stream_by(
        self, model: str, messages: list[dict[str, str]], options: dict[str, Any], is_unwanted: IsUnwanted | None
    ) -> Said:
        asked = self._request(model, messages, options) | {"stream": True}
        try:
            yield from self._streamed(model, asked, is_unwanted)
        except RefusedRequestError as error:  # which nothing raises once an answer has begun
            if error.names("stream"):
                yield from super()._stream_by(model, messages, options, is_unwanted)
                return
            yield from self._streamed(model, self._by_newer_name(asked, error), is_unwanted)

    def _streamed(self, model: str, asked: dict[str, Any], is_unwanted: IsUnwanted | None) -> Said:
        with self._service.events(
            "/chat/completions", asked, _events, is_begun=lambda event: _piece(event).is_begun, is_unwanted=is_unwanted
        ) as events:
            yield from self._told(model, map(_piece, events))

    def _request(self, model: str, messages: list[dict[str, str]], options: dict[str, Any]) -> dict[str, Any]:
        if "num_predict" in options:
            options = {"max_tokens": options["num_predict"], **options}
            del options["num_predict"]
        asked = {**options, "model": model, "messages": messages}
        is_newer = self._takes_newer_name and model == self.model and "max_tokens" in asked
        return _with_newer_name(asked) if is_newer else asked

    def _by_newer_name(self, asked: dict[str, Any], refusal: RefusedRequestError) -> dict[str, Any]:
        """Return the request with the newer name of `max_tokens`. Raises the refusal when it is about something
        else."""
        if "max_tokens" not in asked or not refusal.names("max_tokens") or exceeds_context(refusal):
            raise refusal
        if asked["model"] == self.model and refusal.names("max_completion_tokens"):
            self._takes_newer_name = True
        return _with_newer_name(asked)


def _with_newer_name(asked: dict[str, Any]) -> dict[str, Any]:
    others = {name: value for name, value in asked.items() if name != "max_tokens"}
    return {**others, "max_completion_tokens": asked["max_tokens"]}


def _events(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the texts of objects: of each event, or of the whole answer where it is no stream."""
    rest = iter(lines)
    first = next((line for line in rest if line.strip()), b"")
    if first.lstrip().startswith(b"{"):
        yield b"\n".join((first, *rest))
        return
    for data in event_data(chain((first,), rest)):
        if data == END:
            yield AFTER_ALL
            return
        yield data


def _text(message: Any) -> str | None:
    """Return the text of a message or of a part of one: what the model says, or why it says nothing."""
    return text_said(member(message, "content")) or text_said(member(message, "refusal"))


def _piece(event: dict[str, Any]) -> Piece:
    whole = member(event, "choices", 0, "message")  # from a server that does not stream
    is_last = event.get("done") is True or member(event, "choices", 0, "finish_reason") is not None
    said = whole or member(event, "choices", 0, "delta")
    return Piece(
        _text(said),
        is_last or whole is not None,
        model_said(event),
        token_count(member(event, "usage", "prompt_tokens")),
        token_count(member(event, "usage", "completion_tokens")),
        finish_said(member(event, "choices", 0, "finish_reason")),
        thought_said(said),
    )


def register(registry: Registry) -> None:
    registry.register(OpenAIProvider)
