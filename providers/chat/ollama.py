"""Chat with an Ollama server, in its own protocol."""

from __future__ import annotations

from typing import Any

from providers.base import Registry
from providers.chat.base import ChatAnswer, ChatProvider, member, token_count
from providers.models import models_of
from schemas.configuration import JsonSchema, read_schema
from schemas.connections import ModelInfo
from schemas.errors import ConfigurationError


class OllamaProvider(ChatProvider):
    """Asks `POST {url}/api/chat` for answers as a whole."""

    id = "ollama"
    display_name = "Ollama"
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
        if "max_tokens" in options:
            options = {"num_predict": options["max_tokens"], **options}
            del options["max_tokens"]
        asked = {"model": model, "messages": messages, "stream": False, "options": options}
        try:
            answer = self._service.post("/api/chat", asked)
        except ConfigurationError as error:
            if error.details.get("error_type") == "not_found" and "model" in str(error.details.get("reason", "")):
                raise ConfigurationError(
                    f"Ollama has no model '{model}'; get it with: ollama pull {model}", **error.details
                ) from error
            raise
        content = member(answer, "message", "content")
        if not isinstance(content, str):
            raise self._unusable("without a message")
        return ChatAnswer(
            content,
            str(member(answer, "model") or model),
            token_count(member(answer, "prompt_eval_count")),
            token_count(member(answer, "eval_count")),
        )


def register(registry: Registry) -> None:
    registry.register(OllamaProvider)
