"""The composition root: builds the whole service from its settings."""

from __future__ import annotations

from flask import Flask

import wrapper
from interfaces import model_metrics
from interfaces.chroma import about_server, collections_of_database, records
from interfaces.chroma import face as chroma
from interfaces.console.app import mount_console
from interfaces.dify import retrieval as dify
from interfaces.health import report_gauges, report_health
from interfaces.layers import Layers
from interfaces.mcp import streamable as mcp_http
from interfaces.mcp.tools import mcp_tools
from interfaces.model_checks import check_models
from interfaces.openai import chat_completions, files, known_models, vector_stores
from interfaces.openai.face import FACE as OPENAI
from interfaces.tracing.wanted import open_tracing
from interfaces.web import (
    administration,
    chat,
    connections,
    documents,
    guide,
    protected_resource,
    quality,
    reembedding,
    rule_documents,
    search,
    text_documents,
    tools,
    watchers,
)
from providers.outbound import deadlines
from providers.outbound.addresses import ConnectPolicy
from providers.outbound.network import Network, OffLimits
from providers.outbound.trust import Trust
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
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
from wrapper.access.authentication import Authentication
from wrapper.observing.logs import clean_lines
from wrapper.service import Service
from wrapper.web import route_table
from wrapper.web.error_statuses import speak
from wrapper.web.lanes import Lanes
from wrapper.web.measured import TRACER


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
        authentication: Authentication = app.extensions["rag.access"]
        if oidc_settings.has_users:
            # Imported late: the library for tokens imports much of cryptography, and most services have no users.
            from interfaces.identity.verifier import open_identity

            identity = open_identity(oidc_settings, network, service.looks)
            authentication.verifier = app.extensions[protected_resource.IDENTITY] = identity
        app.extensions["rag.challenge"] = protected_resource.challenge
        layers = Layers(service, authentication, network, registry_settings, retrieval_settings, access)
    except BaseException:
        service.close()
        raise
    app.extensions["rag.layers"] = layers
    of_service = (settings, access, oidc_settings, registry_settings, retrieval_settings)
    app.extensions[administration.SETTINGS] = of_service
    service.on_close(clean_lines(layers.connections.redacted))
    service.on_close(layers.close)
    report_health(service, layers)
    report_gauges(service, layers)
    lanes: Lanes = app.extensions["rag.lanes"]
    lanes.limit_services(deadlines.within)
    if layers.connections.address(layers.connections.find("default")) is not None:
        lanes.embed_elsewhere()
    app.url_map.converters["connection_id"] = connections.ConnectionId
    app.url_map.converters["any_id"] = documents.AnyId
    app.extensions[guide.FOLDER] = guide.SITE
    app.extensions["rag.mcp"] = mcp_http.Endpoint(
        mcp_tools(layers), may_write=retrieval_settings.mcp_write, clean=app.extensions["rag.clean"]
    )
    route_table.register(
        *(app, connections, search, rule_documents, text_documents, documents, chat, tools),
        *(watchers, administration, quality, mcp_http, protected_resource, guide, reembedding),
    )
    for face in (chroma.FACE, chroma.OLD_FACE, dify.FACE, OPENAI):
        speak(app, face)
    of_chroma = (about_server, collections_of_database, records)
    of_openai = (known_models, chat_completions, files, vector_stores)
    route_table.register(app, *of_chroma, dify, *of_openai)
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
