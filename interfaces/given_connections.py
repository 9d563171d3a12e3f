"""The connections that nobody has to store: a service's own storage, the models that the settings describe, and those
that the operator declares in the configuration file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from registry.connection_checks import check_connection
from registry.older_spellings import current_spelling
from registry.placeholders.resolving import Placeholders
from registry.placeholders.secret_hosts import SecretHosts
from registry.provider_registry import ProviderRegistry
from schemas.connections import Connection
from schemas.errors import ConfigurationError, RagError
from schemas.settings import RegistrySettings, read_declared_connections

LOCAL_MODEL = "minilm"
PREFIXES = {"embedding": "RAG_EMBEDDING_", "llm": "RAG_CHAT_", "rerank": "RAG_RERANK_"}
"""The beginnings of the variables that describe the connection of a kind."""


def built_in_connections(settings: RegistrySettings) -> list[Connection]:
    """Return `local`, and the embedding, chat and reranking connections that the settings describe."""
    embedding = (settings.embedding_provider, settings.embedding_url, settings.embedding_model)
    chat = (settings.chat_provider, settings.chat_url, settings.chat_model)
    rerank = (settings.rerank_provider, settings.rerank_url, settings.rerank_model)
    made = [Connection("local", "rag", "local", {}, "Storage of this service", "built-in")]
    for connection_id, kind, (provider, url, model), title in (
        ("default", "embedding", embedding, "The configured embeddings"),
        ("chat", "llm", chat, "The configured chat model"),
        ("rerank", "rerank", rerank, "The configured reranking model"),
    ):
        if not provider and kind != "embedding":  # without which no service starts
            continue
        key, config = f"{PREFIXES[kind]}API_KEY", {"model": model}
        if provider != LOCAL_MODEL:
            config |= {"url": url, "api_key": f"${{{key}}}" if os.environ.get(key) else ""}
        given = {name: value for name, value in config.items() if value}
        made.append(Connection(connection_id, kind, provider, given, title, "built-in"))
    return made


def declared_connections(registry: ProviderRegistry, placeholders: Placeholders) -> list[Connection]:
    """Return the connections of the configuration file. Raises ConfigurationError naming the first that cannot be
    used."""
    declared = []
    for connection_id, said in read_declared_connections().items():
        unknown = sorted(set(said) - {"type", "provider", "config", "display_name"})
        if unknown:
            raise ConfigurationError(f"connections.{connection_id} has an unknown field '{unknown[0]}'")
        config = said.get("config") or {}
        if not isinstance(config, dict):
            raise ConfigurationError(f"connections.{connection_id}.config must be a mapping")
        kind, provider = str(said.get("type", "rag")), str(said.get("provider"))
        schema = registry.schema(provider, kind)
        connection = Connection(
            connection_id,
            kind,
            provider,
            current_spelling(config, provider, schema),
            said.get("display_name"),
            "declared",
        )
        try:
            check_connection(connection, registry, placeholders)
        except RagError as error:
            raise ConfigurationError(f"connections.{connection_id}: {error.message}") from None
        declared.append(connection)
    return declared


def operators_placeholders(settings: RegistrySettings, own_files: Sequence[Path] = ()) -> Placeholders:
    """Return the placeholders that these settings let connections use; none of them reads the service's own files."""
    secret_hosts = SecretHosts.parse(settings.secret_hosts)
    return Placeholders(
        os.environ, settings.env_patterns, settings.secret_dirs, secret_hosts=secret_hosts, own_files=own_files
    )
