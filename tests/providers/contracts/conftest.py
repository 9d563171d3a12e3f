"""The providers of documents, as many as are registered, each connected to its real backend."""

from __future__ import annotations

import uuid

import pytest

from registry.discovery import discover
from registry.registry import ProviderRegistry
from tests.properties.profiles import load_profile
from tests.providers.contracts.harnesses import harnesses_of
from tests.support.apps import running_app

load_profile()

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


@pytest.fixture(scope="session", params=harnesses_of(REGISTRY.entries("rag")))
def backend(request, tmp_path_factory):
    name, harness = request.param
    assert harness, f"provider '{name}' needs a line in HARNESSES"
    with harness(request, tmp_path_factory.mktemp(name)) as backend:
        yield name, backend


@pytest.fixture(scope="session")
def provider(backend):
    name, found = backend
    with REGISTRY.connect("rag", name, found.config, found.context) as provider:
        yield provider


@pytest.fixture
def name():
    return f"test-{uuid.uuid4().hex[:16]}"


@pytest.fixture
def made(provider):
    """`made(metric, **metadata)`: the name of a new collection, which goes away with the test."""
    names = []

    def make(metric="cosine", **metadata):
        names.append(f"test-{uuid.uuid4().hex[:16]}")
        provider.create_collection(names[-1], metadata, metric=metric)
        return names[-1]

    yield make
    for each in {*names} & {collection.name for collection in provider.collections()}:
        provider.delete_collection(each)


@pytest.fixture
def documents_of(provider):
    """`documents_of(collection, where)`: all of them, page by page."""

    def read(collection, where=None, limit=1000, **options):
        found, cursor = [], None
        while True:
            page = provider.documents(collection, where, limit=limit, cursor=cursor, **options)
            found += page.documents
            cursor = page.next_cursor
            if cursor is None:
                assert page.total == len(found)
                return found

    return read
