"""Chat with any server that speaks OpenAI's protocol: OpenAI, vLLM, LM Studio, llama.cpp, LocalAI, …"""

from __future__ import annotations

from typing import Any

from providers.base import Registry
from providers.chat.base import ChatAnswer, ChatProvider, member, token_count
from providers.models import models_of
from schemas.configuration import JsonSchema, read_schema
from schemas.connections import ModelInfo
from schemas.errors import InvalidInputError


class OpenAIProvider(ChatProvider):
    """Asks `POST {url}/chat/completions`. OpenAI's newer models take the limit of an answer under another name, which
    is tried when the first is refused."""

    id = "openai"
    display_name = "OpenAI-compatible server"
    description = "Chat with OpenAI, vLLM, LM Studio, llama.cpp, LocalAI and others of that protocol"

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("llm-openai")

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
        if "num_predict" in options:
            options = {"max_tokens": options["num_predict"], **options}
            del options["num_predict"]
        asked = {**options, "model": model, "messages": messages}
        try:
            answer = self._service.post("/chat/completions", asked)
        except InvalidInputError as error:
            if "max_tokens" not in asked or "max_tokens" not in str(error.details.get("reason", "")):
                raise
            longest = asked.pop("max_tokens")
            answer = self._service.post("/chat/completions", {**asked, "max_completion_tokens": longest})
        content = member(answer, "choices", 0, "message", "content")
        if not isinstance(content, str):
            raise self._unusable("without a message")
        return ChatAnswer(
            content,
            str(member(answer, "model") or model),
            token_count(member(answer, "usage", "prompt_tokens")),
            token_count(member(answer, "usage", "completion_tokens")),
        )


def register(registry: Registry) -> None:
    registry.register(OpenAIProvider)
