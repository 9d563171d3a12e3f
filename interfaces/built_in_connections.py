"""The connections that every service has: its own storage, and the models that the settings describe."""

from __future__ import annotations

import os
from typing import Any

from schemas.connections import Connection
from schemas.settings import RegistrySettings

LOCAL_MODEL = "minilm"


def built_in_connections(settings: RegistrySettings) -> list[Connection]:
    """Return `local`, and the embedding, chat and reranking connections that the settings describe."""
    made = [
        Connection("local", "rag", "local", {}, "Storage of this service", "built-in"),
        Connection(
            "default",
            "embedding",
            settings.embedding_provider,
            _config(
                settings.embedding_provider, settings.embedding_url, settings.embedding_model, "RAG_EMBEDDING_API_KEY"
            ),
            "The configured embeddings",
            "built-in",
        ),
    ]
    if settings.chat_provider:
        config = _config(settings.chat_provider, settings.chat_url, settings.chat_model, "RAG_CHAT_API_KEY")
        made.append(Connection("chat", "llm", settings.chat_provider, config, "The configured chat model", "built-in"))
    if settings.rerank_provider:
        config = _config(settings.rerank_provider, settings.rerank_url, settings.rerank_model, "RAG_RERANK_API_KEY")
        made.append(
            Connection(
                "rerank", "rerank", settings.rerank_provider, config, "The configured reranking model", "built-in"
            )
        )
    return made


def _config(provider: str, url: str, model: str, key_variable: str) -> dict[str, Any]:
    config = {"model": model}
    if provider != LOCAL_MODEL:
        config |= {"url": url, "api_key": f"${{{key_variable}}}" if os.environ.get(key_variable) else ""}
    return {name: value for name, value in config.items() if value}
