"""Parametrise the provider tests with every registered provider of documents, each connected to its real backend."""

import signal

import pytest

from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from tests.providers.contracts.harnesses import harnesses_of
from tests.support.apps import running_app
from tests.support.chroma import ChromaServer

REGISTRY = discover(ProviderRegistry(), strangers=())


@pytest.fixture(scope="session")
def registry():
    return REGISTRY


@pytest.fixture(scope="session")
def lost_storage(tmp_path_factory):
    """A store whose service has ended."""
    with running_app(tmp_path_factory.mktemp("lost")) as app:
        service = app.extensions["rag.service"]
    return service.store


@pytest.fixture(scope="session")
def stock_chroma(tmp_path_factory, processes):
    """A stock Chroma server, which all tests of this folder share."""
    server = ChromaServer(tmp_path_factory.mktemp("chroma"))
    server.start()
    yield server
    server.stop(signal.SIGTERM)


@pytest.fixture(scope="session", params=harnesses_of(REGISTRY.entries("rag")))
def backend(request, tmp_path_factory, processes):
    name, harness = request.param
    with harness(request, tmp_path_factory.mktemp(name)) as backend:
        yield name, backend


@pytest.fixture(scope="session")
def provider(backend):
    name, found = backend
    with REGISTRY.connect("rag", name, found.config, found.context) as provider:
        yield provider
