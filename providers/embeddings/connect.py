"""From the words of a configuration to an embedding connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from providers.embeddings.base import EmbeddingConnection
from providers.embeddings.minilm import MiniLMConnection
from providers.embeddings.ollama import OllamaConnection
from providers.embeddings.openai import OpenAIConnection
from schemas.errors import ConfigurationError

CONNECTIONS: dict[str, Callable[..., EmbeddingConnection]] = {
    connection.provider: connection for connection in (MiniLMConnection, OpenAIConnection, OllamaConnection)
}


def connect(
    provider: str, *, url: str | None = None, model: str | None = None, api_key: str | None = None, **options: Any
) -> EmbeddingConnection:
    """Build the connection of that name; what is None takes the provider's default. Asks no service yet.

    `options` go to the connection: `dimension`, `batch_size`, `timeout_seconds`, `retry`, `sleep`, `clock` for openai
    and ollama; `threads`, `model_dir` for minilm, which is local and ignores `url` and `api_key`.
    ConfigurationError: unknown provider (`details.allowed` lists the known ones), unknown local model, unusable URL
    or key, missing libraries or weights.
    """
    if provider not in CONNECTIONS:
        known = ", ".join(CONNECTIONS)
        raise ConfigurationError(
            f"Unknown embedding provider '{provider}'; known are {known}",
            field="provider",
            allowed=list(CONNECTIONS),
            error_type="invalid_config",
        )
    settings = {"model": model} if provider == MiniLMConnection.provider else _remote(url, model, api_key)
    chosen = {name: value for name, value in settings.items() if value is not None}
    return CONNECTIONS[provider](**chosen, **options)


def _remote(url: str | None, model: str | None, api_key: str | None) -> dict[str, str | None]:
    return {"url": url, "model": model, "api_key": api_key}
