"""The contract of a chat connection: messages in, an answer out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from providers.base import Provider, ProviderContext
from providers.models import UnknownModelError, checked_model, one_model
from providers.remote_service import RemoteService, RetryPolicy
from schemas.chat import Message
from schemas.connections import ModelInfo
from schemas.errors import InvalidInputError, UnavailableError


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """`model` is the one that answered; tokens are counted by the server, None where it does not say."""

    content: str
    model: str
    prompt_tokens: int | None = None
    answer_tokens: int | None = None


LENGTHS = ("max_tokens", "max_completion_tokens", "num_predict")
"""What servers call the longest answer."""


class ChatConnection(Provider):
    """The models of one server, usable by several threads; `model` answers where a call names none. What fails is asked
    once more: a model that has begun to think is not helped by being asked again and again."""

    kind = "llm"
    retry: ClassVar[RetryPolicy] = RetryPolicy(attempts=2)

    def __init__(
        self, config: Mapping[str, Any], context: ProviderContext | None = None, *, retry: RetryPolicy | None = None
    ) -> None:
        super().__init__(config, context)
        self.model: str = self.config["model"]
        self._service = RemoteService(
            "chat service",
            self.id,
            self.config["url"],
            network=self.context.network,
            redactor=self.context.redactor,
            api_key=self.config.get("api_key"),
            timeout_seconds=self.config["timeout_seconds"],
            retry=retry or self.retry,
        )

    def close(self) -> None:
        self._service.close()

    def chat(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> ChatAnswer:
        """The model's answer. `options` are the model's, passed on as they are by the names that its server has for
        them; `max_tokens` and `num_predict` mean the same everywhere. A temperature and a length that they do not say
        are the configuration's, else the model's own.

        InvalidInputError: no messages, the model refuses them, or the provider has no such model. UnavailableError: no
        usable answer now. ConfigurationError: none until an operator changes something. `details.error_type` as in
        embedding connections.
        """
        if not messages:
            raise InvalidInputError("messages must not be empty", field="messages")
        asked = [{"role": message.role, "content": message.content} for message in messages]
        said = self._with_configured(options or {})
        if model is None or model == self.model:
            return self._chat(asked, said)
        return self._chat_by(checked_model(model), asked, said)

    def models(self) -> list[ModelInfo]:
        """Those that the provider has for chat, by id. Raises what `chat` raises."""
        return [one_model(self.model, self.kind, None, self.description)]

    def try_out(self) -> dict[str, Any]:
        answer = self.chat([Message("user", "Say yes.")], options={"max_tokens": 1})
        return {"model": answer.model}

    @abstractmethod
    def _chat(self, messages: list[dict[str, str]], options: dict[str, Any]) -> ChatAnswer:
        """By the connection's own model."""

    def _chat_by(self, model: str, messages: list[dict[str, str]], options: dict[str, Any]) -> ChatAnswer:
        """By another one. A provider that has only one leaves this as it is."""
        raise UnknownModelError(self.id, model, self.model)

    def _with_configured(self, options: Mapping[str, Any]) -> dict[str, Any]:
        said = dict(options)
        for name, same in (("temperature", ("temperature",)), ("max_tokens", LENGTHS)):
            if self.config.get(name) is not None and said.keys().isdisjoint(same):
                said[name] = self.config[name]
        return said

    def _unusable(self, what: str) -> UnavailableError:
        return UnavailableError(
            f"The chat service '{self.id}' answered {what}",
            code="chat_answer_unusable",
            provider=self.id,
            error_type="unknown",
        )


def member(value: Any, *path: str | int) -> Any:
    """What lies at a path of a decoded answer, None where it ends early."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def token_count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
