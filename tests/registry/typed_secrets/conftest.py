"""Connections of the real OpenAI provider that keep typed secrets under the key file of a data directory."""

import pytest

from registry.placeholders.resolving import Placeholders
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from registry.typed_secrets.sealing import Seal
from schemas.connections import Connection
from wrapper.secret_key import KeyFile

TYPED = "sk-typed-5d20"
AT_FIRST = "http://first:8000/v1"
ENVIRON = {"FIRST_URL": "http://first:8000", "WORDS_API_KEY": "sk-planted"}


def there(connection_id="there", **config):
    return Connection(connection_id, "llm", "openai", {"url": AT_FIRST, "api_key": TYPED, **config})


def key_of(connections, connection_id="there"):
    return connections.open(connection_id, "llm").config["api_key"]


@pytest.fixture
def key_file(tmp_path):
    file = KeyFile(tmp_path)
    file.make()
    return file


@pytest.fixture
def worker(open_connections):
    """`worker(keys, environ)` returns the connections as a worker with these keys sees them."""

    def start(keys, environ=ENVIRON):
        registry = discover(ProviderRegistry(), strangers=[])
        return open_connections(Placeholders(environ), registry=registry, seal=Seal(keys))

    return start


@pytest.fixture
def connections(worker, key_file):
    return worker(key_file)
