"""The embedding connection that the variables of this process describe."""

from __future__ import annotations

import os
from typing import cast

from interfaces.service_address import network_to
from providers.base import ProviderContext
from providers.embeddings.base import EmbeddingProvider
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from schemas.settings import read_registry_settings


def embedding_connection(provider: str, config: dict[str, str | None]) -> EmbeddingProvider:
    """Open the connection that the variables describe. A provider on this machine does not need all of them."""
    registry = discover(ProviderRegistry())
    known = registry.provider("embedding", provider).connection_schema()["properties"]
    given = {name: value for name, value in config.items() if name in known}
    context = ProviderContext(network=network_to(config.get("url") or ""))
    return cast(EmbeddingProvider, registry.connect("embedding", provider, given, context))


def configured_embedding() -> EmbeddingProvider:
    """Open the connection that the service's own variables describe. Raises ConfigurationError when it cannot be
    used."""
    settings = read_registry_settings()
    config = {
        "url": settings.embedding_url or None,
        "model": settings.embedding_model or None,
        "api_key": os.environ.get("RAG_EMBEDDING_API_KEY") or None,
    }
    return embedding_connection(settings.embedding_provider, config)
