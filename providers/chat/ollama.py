"""Chat with an Ollama server, in its own protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
from providers.outbound.answer_streams import not_blank
from providers.outbound.recognition import Sign
from schemas.configuration import JsonSchema, read_schema
from schemas.connections import ModelInfo
from schemas.contracts.chat import STOP
from schemas.errors import ConfigurationError


class OllamaProvider(ChatProvider):
    """Asks `POST {url}/api/chat`, which streams lines of JSON."""

    id = "ollama"
    display_name = "Ollama"
    sign = Sign("/api/version", "version")
    description = "Chat with a model on an Ollama server"

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("llm-ollama")

    def models(self) -> list[ModelInfo]:
        return models_of(self._listed(), self.kind)

    def check(self) -> dict[str, Any]:
        return {"models_count": len(self._listed())}

    def _listed(self) -> list[Any]:
        listed = member(self._service.get("/api/tags"), "models")
        if not isinstance(listed, list):
            raise self._unusable("no list of models")
        return listed

    def _chat(self, messages: list[dict[str, str]], options: dict[str, Any]) -> ChatAnswer:
        return self._chat_by(self.model, messages, options)

    def _chat_by(self, model: str, messages: list[dict[str, str]], options: dict[str, Any]) -> ChatAnswer:
        with _saying_how_to_get(model):
            answer = self._service.post("/api/chat", _request(model, messages, options, stream=False))
        return ChatAnswer(
            text_said(member(answer, "message", "content")) or "",
            str(member(answer, "model") or model),
            token_count(member(answer, "prompt_eval_count")),
            token_count(member(answer, "eval_count")),
            finish_said(member(answer, "done_reason")) or STOP,
            thought_said(member(answer, "message")) or "",
        )

    def _stream(self, messages: list[dict[str, str]], options: dict[str, Any], is_unwanted: IsUnwanted | None) -> Said:
        return self._stream_by(self.model, messages, options, is_unwanted)

    def _stream_by(
        self, model: str, messages: list[dict[str, str]], options: dict[str, Any], is_unwanted: IsUnwanted | None
    ) -> Said:
        asked = _request(model, messages, options, stream=True)
        with (
            _saying_how_to_get(model),
            self._service.events(
                "/api/chat", asked, not_blank, is_begun=lambda event: _piece(event).is_begun, is_unwanted=is_unwanted
            ) as events,
        ):
            yield from self._told(model, _pieces(events))


def _request(model: str, messages: list[dict[str, str]], options: dict[str, Any], *, stream: bool) -> dict[str, Any]:
    if "max_tokens" in options:
        options = {"num_predict": options["max_tokens"], **options}
        del options["max_tokens"]
    # Unless it is told so, Ollama cuts a prompt that is too long, and says nothing.
    return {"model": model, "messages": messages, "stream": stream, "truncate": False, "options": options}


@contextmanager
def _saying_how_to_get(model: str) -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        if error.details.get("error_type") == "not_found" and "model" in str(error.details.get("reason", "")):
            raise ConfigurationError(
                f"Ollama has no model '{model}'; get it with: ollama pull {model}", **error.details
            ) from error
        raise


def _pieces(events: Iterator[dict[str, Any]]) -> Iterator[Piece]:
    for piece in map(_piece, events):
        yield piece
        if piece.is_last:
            return


def _piece(event: dict[str, Any]) -> Piece:
    return Piece(
        text_said(member(event, "message", "content")),
        event.get("done") is True,
        model_said(event),
        token_count(event.get("prompt_eval_count")),
        token_count(event.get("eval_count")),
        finish_said(event.get("done_reason")),
        thought_said(member(event, "message")),
    )


def register(registry: Registry) -> None:
    registry.register(OllamaProvider)
