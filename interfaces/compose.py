"""The composition root: builds the whole service from its settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import structlog
from flask import Flask

import wrapper
from interfaces import model_metrics
from interfaces.built_in_connections import built_in_connections
from interfaces.console.mounting import mount_console
from interfaces.context_tools import context_tools
from interfaces.declared_connections import declared_connections, operators_placeholders
from interfaces.embedding_meter import EmbeddingMeter
from interfaces.erasing_parts import open_erasure
from interfaces.faces.registering import mount_faces
from interfaces.gauges import report_gauges
from interfaces.health import FRESH_SECONDS, check_model, check_storage, report_health
from interfaces.identity.opening import open_identity
from interfaces.job_parts import open_jobs
from interfaces.layers import Layers
from interfaces.mcp import streamable as mcp_http
from interfaces.mcp.tools import mcp_tools
from interfaces.model_checks import check_models, own_calibrations
from interfaces.secrets_warnings import warn_of_free_secrets, warn_of_other_keys
from interfaces.tracing.wanted import open_tracing
from interfaces.web import (
    chat,
    collect,
    connections,
    documents,
    erasure,
    guide,
    jobs,
    protected_resource,
    quality,
    rule_documents,
    search,
    settings_in_force,
    text_documents,
    tools,
    watchers,
)
from interfaces.web.models import reembedding, rerank
from providers.base import ProviderContext
from providers.chat.base import ChatProvider
from providers.outbound import deadlines
from providers.outbound.addresses import ConnectPolicy
from providers.outbound.network import Network, OffLimits
from providers.outbound.trust import Trust
from registry.candidates import Candidates
from registry.collector import Collector, Thresholds
from registry.connections import Connections
from registry.embedding.cache import EmbeddingCache
from registry.embedding.queries import QueryEmbeddings
from registry.embedding.shared_files import VectorFiles
from registry.health import HealthWatch
from registry.placeholders.resolving import SERVICE_KEYS, Placeholders
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from registry.stored_call_sizes import StoredCallSizes
from registry.stored_connections import StoredConnections
from registry.stored_looks import StoredLooks
from registry.topics.conversations import Conversations
from registry.topics.topic import TopicByChat, TopicByRule
from registry.typed_secrets.sealing import Seal
from retrieval.bench.measuring import open_quality
from retrieval.chat.answering import Chat
from retrieval.chat.history import ChatHistory
from retrieval.chat.passages import ChatPassages
from retrieval.context.layer import ContextLayer
from retrieval.documents.originals import Originals
from retrieval.documents.stored_documents import StoredDocuments
from retrieval.documents.text_document_store import RagStore
from retrieval.jobs.known_files import KnownFiles
from retrieval.reembedding import Reembedder
from retrieval.rules.pipeline import RAGPipeline
from retrieval.search.answer_cache import AnswerCache
from retrieval.search.choosing import CollectionChoice
from retrieval.search.corpus import Corpus
from retrieval.search.engine import SearchEngine
from retrieval.search.oracles.lexical import LexicalOracle
from retrieval.search.oracles.persona import PersonaOracle, seen_notes
from retrieval.search.oracles.semantic import SemanticOracle
from retrieval.search.reranking import Reranking
from retrieval.sessions.notes import Notes
from retrieval.sessions.project_context import ContextWriter
from retrieval.sessions.sessions import Sessions
from retrieval.text_collections import TextCollections
from retrieval.warm_up import WarmUp
from retrieval.watching.stored_reports import Watchers
from schemas.access.callers import Caller, as_service
from schemas.settings import (
    AccessSettings,
    OidcSettings,
    RegistrySettings,
    RetrievalSettings,
    TracingSettings,
    WrapperSettings,
    read_access_settings,
    read_oidc_settings,
    read_registry_settings,
    read_retrieval_settings,
    read_tracing_settings,
    read_wrapper_settings,
)
from schemas.where import Where
from wrapper.access.authentication import Authentication
from wrapper.access.daily_use import DailyUse
from wrapper.observing.logs import clean_lines
from wrapper.secret_key import KEY_FILE, secret_keys
from wrapper.service import Service
from wrapper.web import route_table
from wrapper.web.lanes import Lanes
from wrapper.web.measured import TRACER

log = structlog.get_logger(__name__)


def create_app(
    settings: WrapperSettings | None = None,
    registry_settings: RegistrySettings | None = None,
    retrieval_settings: RetrievalSettings | None = None,
    access: AccessSettings | None = None,
    *,
    oidc_settings: OidcSettings | None = None,
    tracing_settings: TracingSettings | None = None,
) -> Flask:
    """Return the storage proxy and everything above it as one WSGI application.

    Raises ConfigurationError when a setting, a configured model or a declared connection cannot be used, or another
    service owns the data.
    """
    settings = settings or read_wrapper_settings()
    registry_settings = registry_settings or read_registry_settings()
    retrieval_settings = retrieval_settings or read_retrieval_settings()
    access = access or read_access_settings()
    oidc_settings = oidc_settings or read_oidc_settings()
    check_models(registry_settings)
    app = wrapper.create_app(settings, access)
    service: Service = app.extensions["rag.service"]
    try:
        network = way_out(registry_settings, service.own_servers)
        app.extensions[TRACER] = open_tracing(tracing_settings or read_tracing_settings(), network, service)
        identity = open_identity(oidc_settings, network, service.looks)
        authentication: Authentication = app.extensions["rag.access"]
        authentication.verifier = identity
        app.extensions[protected_resource.IDENTITY] = identity
        app.extensions["rag.challenge"] = protected_resource.challenge
        layers = open_layers(service, authentication, network, registry_settings, retrieval_settings, access)
    except BaseException:
        service.close()
        raise
    app.extensions["rag.layers"] = layers
    app.extensions[settings_in_force.SETTINGS] = (
        settings,
        access,
        oidc_settings,
        registry_settings,
        retrieval_settings,
    )
    service.on_close(clean_lines(layers.connections.redacted))
    service.on_close(layers.close)
    report_health(service, layers)
    report_gauges(service, layers)
    lanes: Lanes = app.extensions["rag.lanes"]
    lanes.limit_services(deadlines.within)
    if layers.connections.address(layers.connections.find("default")) is not None:
        lanes.embed_elsewhere()
    app.url_map.converters["connection_id"] = connections.ConnectionId
    app.url_map.converters["stored_id"] = documents.StoredId
    app.url_map.converters["originals_id"] = documents.OriginalsId
    app.url_map.converters["conversation_id"] = chat.ConversationId
    app.extensions[guide.FOLDER] = guide.SITE
    app.extensions["rag.mcp"] = mcp_http.Endpoint(
        mcp_tools(layers), may_write=retrieval_settings.mcp_write, clean=app.extensions["rag.clean"]
    )
    route_table.register(
        *(app, connections, collect, search, rerank, rule_documents, text_documents, documents, jobs, chat, tools),
        *(watchers, erasure, quality, mcp_http, protected_resource, settings_in_force, guide, reembedding),
    )
    mount_faces(app)
    mount_console(app, service.catalog)
    layers.start()
    return app


def import_all() -> None:
    """Import now what `create_app` will import."""
    wrapper.import_all()
    discover(ProviderRegistry())


def way_out(settings: RegistrySettings, off_limits: OffLimits) -> Network:
    """Return the way to other services that these settings allow, and that leads to none that is `off_limits`."""
    trust = Trust(settings.ca_file) if settings.ca_file else None
    return Network(
        ConnectPolicy.parse(settings.connect_policy), trust=trust, off_limits=off_limits, told=model_metrics.count_call
    )


def open_layers(
    service: Service,
    authentication: Authentication,
    network: Network,
    settings: RegistrySettings,
    retrieval: RetrievalSettings,
    access: AccessSettings,
) -> Layers:
    data_dir = service.settings.data_dir
    registry = discover(ProviderRegistry())
    own_paths = (access.api_key_file, service.settings.tls_key, service.settings.backup_key_file)
    own_files = [data_dir / KEY_FILE, *map(Path, filter(None, own_paths))]
    placeholders = operators_placeholders(settings, own_files)
    warn_of_free_secrets(settings, placeholders)
    context = ProviderContext(
        network=network,
        storage=service.callers_store,
        service_id=service.id,
        call_sizes=StoredCallSizes(service.catalog),
        data_dir=data_dir,
        calibrations=own_calibrations(settings),
    )
    seal, stored_connections = Seal(secret_keys(data_dir, access)), StoredConnections(service.catalog)
    warn_of_other_keys(stored_connections, seal)
    known = Connections(
        registry,
        stored_connections,
        placeholders,
        context,
        given=[*built_in_connections(settings), *declared_connections(registry, placeholders)],
        own_placeholders=Placeholders(os.environ, SERVICE_KEYS, (), own=frozenset()),
        seal=seal,
    )
    ttl_seconds = settings.embedding_cache_seconds
    question_vectors = VectorFiles(data_dir / "query-embeddings", ttl_seconds=ttl_seconds)
    cache = EmbeddingCache(question_vectors, ttl_seconds=ttl_seconds, told=model_metrics.count_question)
    daily_use = DailyUse(service.catalog)
    metered = EmbeddingMeter(daily_use)
    embeddings = QueryEmbeddings(known, cache, metered)
    collector = Collector(
        known,
        embeddings,
        thresholds=Thresholds(settings.match_threshold, settings.partial_threshold),
        limit_seconds=settings.collect_seconds,
        log_queries=retrieval.log_queries,
    )
    looks = StoredLooks(service.catalog)
    health = HealthWatch(known, looks, limit_seconds=settings.health_seconds, fresh_seconds=FRESH_SECONDS)
    conversations = _conversations(service, known, settings)
    corpus = Corpus(known)
    choice = collection_choice(corpus, known, retrieval)
    warm_up = WarmUp(data_dir / "embeds-texts")
    oracles = search_oracles(embeddings, retrieval, about_to_embed=warm_up.needed)
    semantic, lexical, _ = oracles
    answers = AnswerCache(service.catalog, ttl_seconds=retrieval.cache_ttl_seconds)
    texts = TextCollections(
        known,
        choice,
        about_to_embed=warm_up.needed,
        min_relevance=retrieval.min_relevance,
        metered=metered,
    )
    warm_up.begin(as_service(texts.hold_something), as_service(lambda: texts.embedding().warm_up()))
    originals = Originals(data_dir / "originals", keeps=retrieval.keep_originals)
    stored = StoredDocuments(texts, originals)
    history = ChatHistory(service.catalog)
    job_parts = open_jobs(
        *(service, authentication, texts, stored, originals, retrieval),
        also_tidy=lambda: history.forget_older(retrieval.chat_days),
    )
    reranking = Reranking(known, metered=metered)
    search = search_engine(oracles, choice, reranking, retrieval, answers)
    store = RagStore(texts, search, stored, retrieval)
    service.callers_store.reach.keep_apart(retrieval.notes_collection, own_notes)
    sessions, known_watchers = Sessions(service.catalog), Watchers(service.catalog)
    measuring = open_quality(service.catalog, search, stored, (semantic.name, lexical.name), retrieval.fusion)
    notes = Notes(texts, sessions, retrieval.notes_collection)
    context_layer = ContextLayer(
        texts,
        search,
        service.catalog,
        retrieval,
        vector_store=lambda: check_storage(service),
        models=lambda: {name: partial(check_model, health, model) for name, model in known.of_service().items()},
    )
    erasing = open_erasure(
        service,
        authentication,
        uploads=job_parts.uploads,
        kept_files=job_parts.kept.files,
        documents=stored,
        originals=originals,
        question_vectors=question_vectors,
    )
    return Layers(
        registry=registry,
        connections=known,
        candidates=Candidates(known, test_seconds=settings.connect_test_seconds),
        health=health,
        collector=collector,
        conversations=conversations,
        embeddings=embeddings,
        corpus=corpus,
        choice=choice,
        search=search,
        reranking=reranking,
        pipeline=RAGPipeline(texts, search, retrieval),
        rag_store=store,
        documents=stored,
        known_files=KnownFiles(texts, retrieval, max_file_bytes=_max_file_mb(service, retrieval) << 20),
        jobs=job_parts.jobs,
        uploads=job_parts.uploads,
        job_runner=job_parts.runner,
        reembedder=Reembedder(service.store.reembeddings, known, embeddings, job_parts.background),
        kept=job_parts.kept,
        chat=Chat(known, chat_passages(search, retrieval), history, says_so=retrieval.chat_says_so),
        notes=notes,
        project_context=ContextWriter(search, choice, notes, retrieval),
        context=context_layer,
        tools=context_tools(context_layer, retrieval),
        watchers=known_watchers,
        erasure=erasing,
        quality=measuring,
        warm_up=warm_up,
        settings=settings,
    )


def _max_file_mb(service: Service, settings: RetrievalSettings) -> int:
    """Return how large a file of an upload may be, whose body has other parts, too."""
    return min(settings.upload_file_mb, max(1, service.settings.max_body_mb - 1))


def collection_choice(corpus: Corpus, connections: Connections, settings: RetrievalSettings) -> CollectionChoice:
    """Return the rule by which these settings choose the collections of a question."""
    return CollectionChoice(
        corpus,
        connections,
        own=settings.own_collections,
        notes=settings.notes_collection,
        most=settings.search_collections,
    )


def search_oracles(
    embeddings: QueryEmbeddings, settings: RetrievalSettings, about_to_embed: Callable[[], None] = lambda: None
) -> tuple[SemanticOracle, LexicalOracle, PersonaOracle]:
    """Return the oracles of these settings, in the order in which answers name them."""
    semantic = SemanticOracle(embeddings, about_to_embed=about_to_embed)
    return semantic, LexicalOracle(), PersonaOracle(embeddings, settings.notes_collection)


def search_engine(
    oracles: tuple[SemanticOracle, LexicalOracle, PersonaOracle],
    choice: CollectionChoice,
    reranking: Reranking,
    settings: RetrievalSettings,
    cache: AnswerCache | None = None,
) -> SearchEngine:
    """Return the search engine of these settings."""
    semantic, *_ = oracles
    return SearchEngine(
        oracles,
        choice,
        rrf_k=settings.rrf_k,
        fetch_multiplier=settings.fetch_multiplier,
        fetch_min=settings.fetch_min,
        limit_seconds=settings.retrieve_seconds,
        fusion=settings.fusion,
        embed=semantic.asked,
        reranking=reranking,
        cache=cache,
        min_relevance=settings.min_relevance,
    )


def chat_passages(engine: SearchEngine, settings: RetrievalSettings) -> ChatPassages:
    """Return what finds the passages of a chat by these settings."""
    return ChatPassages(engine, only_relevant=settings.chat_says_so, by_meaning=settings.chat_by_meaning)


def own_notes(caller: Caller) -> Where:
    """Return the filter of the notes that a caller may see beside other documents."""
    return seen_notes(caller.asker)


def _conversations(service: Service, connections: Connections, settings: RegistrySettings) -> Conversations | None:
    """Return the store of conversations, None when clients keep their topics themselves."""

    def by_model() -> TopicByChat:
        return TopicByChat(cast(ChatProvider, connections.open_chat()[1]))

    # Opened in any case, so that erasures find the topics of earlier starts.
    kept = Conversations(service.catalog, by_model if settings.topic == "chat" else TopicByRule)
    return None if settings.topic == "off" else kept
