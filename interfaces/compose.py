"""The composition root: settings in, the whole service out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import structlog
from flask import Flask

import wrapper
from interfaces.configured import built_in_connections, check_models
from interfaces.http import collect, connections, rag, search, tools, watchers
from interfaces.mcp import http as mcp_http
from interfaces.mcp.tools import mcp_tools
from providers import deadlines
from providers.addresses import ConnectPolicy
from providers.base import ProviderContext
from providers.chat.base import ChatConnection
from providers.network import Network
from registry.collector import Collector, Thresholds
from registry.connections import Connections, check_connection
from registry.conversations import Conversations
from registry.discovery import discover
from registry.embedding_cache import EmbeddingCache
from registry.health import HealthWatch
from registry.older_spellings import current_spelling
from registry.placeholders import SERVICE_KEYS, Placeholders
from registry.query_embeddings import QueryEmbeddings
from registry.registry import ProviderRegistry
from registry.secret_hosts import SecretHosts
from registry.stored_connections import StoredConnections
from registry.topic import TopicByChat, TopicByRule
from registry.vector_files import VectorFiles
from retrieval.chat import Chat
from retrieval.chat_history import ChatHistory
from retrieval.choosing import CollectionChoice
from retrieval.context.layer import ContextLayer
from retrieval.corpus import Corpus
from retrieval.notes import Notes
from retrieval.oracles.lexical import LexicalOracle
from retrieval.oracles.persona import PersonaOracle
from retrieval.oracles.semantic import SemanticOracle
from retrieval.pipeline import RAGPipeline
from retrieval.project_context import ContextWriter
from retrieval.rag_store import RagStore
from retrieval.result_cache import ResultCache
from retrieval.search import SearchEngine
from retrieval.sessions import Sessions
from retrieval.text_collections import TextCollections
from retrieval.tools import Tool
from retrieval.warm_up import WarmUp
from retrieval.watchers import Watchers
from schemas.connections import UNHEALTHY, Connection, HealthReport
from schemas.errors import ConfigurationError, RagError, UnavailableError
from schemas.settings import (
    RegistrySettings,
    RetrievalSettings,
    WrapperSettings,
    read_declared_connections,
    read_registry_settings,
    read_retrieval_settings,
    read_wrapper_settings,
)
from wrapper import route_table
from wrapper.lanes import Lanes
from wrapper.logs import clean_lines
from wrapper.service import Service

log = structlog.get_logger(__name__)

FRESH_SECONDS = 2.0
"""How long a health report serves others who ask."""
PAID_LOOKS = 10
"""Of so many looks at a model that takes a key only one asks it, as long as it answers."""
MODELS = {"embedding": "embedding", "llm": "chat"}
"""What the health report calls the models of the settings, by their kind."""


@dataclass
class Layers:
    """What stands above the storage proxy, in one process: what the routes of `interfaces/http` call."""

    registry: ProviderRegistry
    connections: Connections
    health: HealthWatch
    collector: Collector
    conversations: Conversations | None
    embeddings: QueryEmbeddings
    corpus: Corpus
    search: SearchEngine
    pipeline: RAGPipeline
    rag_store: RagStore
    chat: Chat
    notes: Notes
    project_context: ContextWriter
    context: ContextLayer
    watchers: Watchers
    warm_up: WarmUp
    settings: RegistrySettings
    models: Mapping[str, Connection]
    """Those that the health report tells of, by its names for them."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """By name, in the order they are listed in."""
        return self.context.tools

    def close(self) -> None:
        self.warm_up.close()
        self.context.close()
        self.search.close()
        self.collector.close()
        self.health.close()
        self.connections.close()


def create_app(
    settings: WrapperSettings | None = None,
    registry_settings: RegistrySettings | None = None,
    retrieval_settings: RetrievalSettings | None = None,
) -> Flask:
    """The storage proxy and everything above it as one WSGI application.

    Raises ConfigurationError when a setting, a configured model or a declared connection cannot be used, or another
    service owns the data.
    """
    settings = settings or read_wrapper_settings()
    registry_settings = registry_settings or read_registry_settings()
    retrieval_settings = retrieval_settings or read_retrieval_settings()
    check_models(registry_settings)
    app = wrapper.create_app(settings)
    service: Service = app.extensions["rag.service"]
    try:
        layers = open_layers(service, registry_settings, retrieval_settings)
    except BaseException:
        service.close()
        raise
    app.extensions["rag.layers"] = layers
    service.on_close(clean_lines(layers.connections.redacted))
    service.on_close(layers.close)
    service.on_health(lambda: _breaker_health(layers))
    _look_at_models(service, layers)
    lanes: Lanes = app.extensions["rag.lanes"]
    lanes.limit_services(deadlines.within)
    if layers.connections.address(layers.connections.find("default")) is not None:
        lanes.embed_elsewhere()
    app.url_map.converters["connection_id"] = connections.ConnectionId
    app.url_map.converters["conversation_id"] = rag.ConversationId
    app.extensions["rag.mcp"] = mcp_http.Endpoint(mcp_tools(layers), may_write=retrieval_settings.mcp_write)
    route_table.register(app, connections, collect, search, rag, tools, watchers, mcp_http)
    return app


def open_layers(service: Service, settings: RegistrySettings, retrieval: RetrievalSettings) -> Layers:
    data_dir = service.settings.data_dir
    registry = discover(ProviderRegistry())
    placeholders = _placeholders(settings)
    warn_of_free_secrets(settings, placeholders)
    context = ProviderContext(
        network=Network(ConnectPolicy.parse(settings.connect_policy)), storage=service.store, data_dir=data_dir
    )
    known = Connections(
        registry,
        StoredConnections(service.catalog),
        placeholders,
        context,
        given=[*built_in_connections(settings), *declared_connections(registry, placeholders)],
        own_placeholders=Placeholders(os.environ, SERVICE_KEYS, (), own=frozenset()),
        test_seconds=settings.connect_test_seconds,
    )
    ttl_seconds = settings.embedding_cache_seconds
    cache = EmbeddingCache(VectorFiles(data_dir / "query-embeddings", ttl_seconds=ttl_seconds), ttl_seconds=ttl_seconds)
    embeddings = QueryEmbeddings(known, cache)
    collector = Collector(
        known,
        embeddings,
        thresholds=Thresholds(settings.match_threshold, settings.partial_threshold),
        limit_seconds=settings.collect_seconds,
        log_queries=retrieval.log_queries,
    )
    models = {MODELS[each.kind]: each for each in built_in_connections(settings) if each.kind in MODELS}
    health = HealthWatch(known, limit_seconds=settings.health_seconds, fresh_seconds=FRESH_SECONDS)
    conversations = _conversations(service, known, settings)
    corpus = Corpus(known)
    choice = collection_choice(corpus, known, retrieval)
    semantic = SemanticOracle(embeddings)
    answers = ResultCache(service.catalog, ttl_seconds=retrieval.cache_ttl_seconds)
    warm_up = WarmUp(data_dir / "embeds-texts")
    texts = TextCollections(
        known,
        choice,
        semantic,
        limit_seconds=retrieval.retrieve_seconds,
        about_to_embed=warm_up.needed,
    )
    warm_up.begin(texts.hold_something, lambda: texts.embedding().warm_up())
    store = RagStore(texts, retrieval)
    search = search_engine(choice, embeddings, retrieval)
    notes = Notes(texts, Sessions(service.catalog), retrieval.notes_collection)
    return Layers(
        registry,
        known,
        health,
        collector,
        conversations,
        embeddings,
        corpus,
        search,
        RAGPipeline(texts, answers, retrieval),
        store,
        Chat(known, store, ChatHistory(service.catalog)),
        notes,
        ContextWriter(search, choice, notes, retrieval),
        ContextLayer(
            texts,
            LexicalOracle(),
            service.catalog,
            answers,
            retrieval,
            lock_file=data_dir / "search-metrics.lock",
            vector_store=lambda: _check_storage(service),
            models={name: partial(_check_connection, health, model) for name, model in models.items()},
        ),
        Watchers(service.catalog),
        warm_up,
        settings,
        models,
    )


def _breaker_health(layers: Layers) -> tuple[dict[str, Any], bool]:
    is_closed = layers.context.breaker.is_closed()
    return {"circuitBreakerOpen": not is_closed}, is_closed


def _look_at_models(service: Service, layers: Layers) -> None:
    """Have the embedding and the chat service in the health report, asked in the background."""
    every_seconds = layers.settings.health_look_seconds

    def look_at(name: str, connection: Connection) -> None:
        # Whoever wants a key mostly wants money too.
        recent_seconds = every_seconds * (PAID_LOOKS if "api_key" in connection.config else 1)
        service.looks.add(
            name,
            lambda: layers.health.look(connection, recent_seconds=recent_seconds),
            None,
            every_seconds=every_seconds,
            limit_seconds=layers.settings.health_seconds,
        )
        service.on_health(lambda: _model_health(name, layers.health.last(connection)))

    for name, connection in layers.models.items():
        look_at(name, connection)


def _model_health(name: str, report: HealthReport | None) -> tuple[dict[str, Any], bool]:
    if report is None:
        return {name: {"status": "unknown"}}, False
    told = {"status": report.status, "provider": report.provider, "age_seconds": report.details.get("age_seconds", 0.0)}
    is_well = report.status != UNHEALTHY
    return {name: told if is_well else {**told, "error": report.message}}, is_well


def _check_storage(service: Service) -> None:
    """Raises UnavailableError when searches by vector are not what they should be, for whatever reason the health
    report has."""
    report = service.storage_health()[0]
    status = report["engine"]["status"]
    if status != "ready":
        raise UnavailableError(f"The vector engine is {status}: searches are slower meanwhile")
    if report["status"] != "healthy":
        raise UnavailableError(
            f"The storage is {report['status']}, as GET /health tells: searches are slower meanwhile"
        )


def _check_connection(health: HealthWatch, connection: Connection) -> None:
    report = health.of(connection)
    if report.status == UNHEALTHY:
        raise UnavailableError(report.message)


def collection_choice(corpus: Corpus, connections: Connections, settings: RetrievalSettings) -> CollectionChoice:
    """Which collections questions are asked of, by these settings."""
    return CollectionChoice(
        corpus,
        connections,
        own=settings.own_collections,
        notes=settings.notes_collection,
        most=settings.search_collections,
    )


def search_engine(choice: CollectionChoice, embeddings: QueryEmbeddings, settings: RetrievalSettings) -> SearchEngine:
    """The engine of these settings, whoever asks it."""
    return SearchEngine(
        (
            SemanticOracle(embeddings),
            LexicalOracle(),
            PersonaOracle(embeddings, settings.notes_collection),
        ),
        choice,
        rrf_k=settings.rrf_k,
        fetch_multiplier=settings.fetch_multiplier,
        fetch_min=settings.fetch_min,
        limit_seconds=settings.retrieve_seconds,
    )


def _placeholders(settings: RegistrySettings) -> Placeholders:
    secret_hosts = SecretHosts.parse(settings.secret_hosts)
    return Placeholders(os.environ, settings.env_patterns, settings.secret_dirs, secret_hosts=secret_hosts)


def warn_of_free_secrets(settings: RegistrySettings, placeholders: Placeholders) -> None:
    if not settings.secret_hosts and placeholders.available():
        log.warning(
            "whoever may define connections may send variables to any host: bind them to theirs with RAG_SECRET_HOSTS",
            variables=len(placeholders.available()),
        )


def _conversations(service: Service, connections: Connections, settings: RegistrySettings) -> Conversations | None:
    """None when clients keep their topics themselves."""
    if settings.topic == "off":
        return None
    if settings.topic == "rule":
        return Conversations(service.catalog, TopicByRule)
    return Conversations(service.catalog, lambda: TopicByChat(cast(ChatConnection, connections.open("chat", "llm"))))


def check_declared_connections() -> None:
    """Raises ConfigurationError when the configuration file declares a connection that is no good."""
    declared_connections(discover(ProviderRegistry()), _placeholders(read_registry_settings()))


def declared_connections(registry: ProviderRegistry, placeholders: Placeholders) -> list[Connection]:
    """The connections of the configuration file. Raises ConfigurationError naming the first that is no good."""
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
