"""Connections of the real OpenAI provider that keep typed secrets under the key file of a data directory."""

import pytest

from providers.base import ProviderContext
from registry.connections import Connections
from registry.placeholders.resolving import Placeholders
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from registry.stored_connections import StoredConnections
from registry.typed_secrets.sealing import Seal
from tests.registry.typed_secrets.typed import ENVIRON
from tests.support.catalogues import one_database
from wrapper.catalog.catalog import Catalog
from wrapper.secret_key import KeyFile


@pytest.fixture(params=["sqlite"])
def database(request):
    with one_database(request) as open_one:
        catalog = Catalog(open_one())
        catalog.open()
        yield catalog
        catalog.close()


@pytest.fixture
def key_file(tmp_path):
    file = KeyFile(tmp_path)
    file.make()
    return file


@pytest.fixture
def worker(database):
    """`worker(keys, environ)` returns the connections as a worker with these keys sees them."""
    made = []

    def start(keys, environ=ENVIRON):
        registry = discover(ProviderRegistry(), strangers=[])
        seal = Seal(keys)
        made.append(
            Connections(registry, StoredConnections(database), Placeholders(environ), ProviderContext(), seal=seal)
        )
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.fixture
def connections(worker, key_file):
    return worker(key_file)
