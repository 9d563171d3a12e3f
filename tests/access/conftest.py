"""Services with keys: in this process, and with two workers as processes, one for each database and run."""

from contextlib import contextmanager

import pytest

from schemas.settings import RegistrySettings, RetrievalSettings
from tests.access.keyed import KeyedApp, KeyedService
from tests.interfaces.access.conftest import app_with_keys
from tests.support.live import live_service
from tests.support.model_server import model_server

ADMIN_KEY = "an-administrators-key-for-tests"


@pytest.fixture(scope="module")
def keyed_app(tmp_path_factory, models):
    """The service in this process, without an engine. The stub of `models` chats, and embeds under the usual name."""
    url = f"{models.url}/v1"
    registry = RegistrySettings(
        embedding_provider="openai",
        embedding_url=url,
        embedding_model="all-MiniLM-L6-v2",
        chat_provider="openai",
        chat_url=url,
        chat_model="chatty",
    )
    folder = tmp_path_factory.mktemp("keyed-app")
    with app_with_keys(folder, registry, RetrievalSettings(mcp_write=True), api_key=ADMIN_KEY) as app:
        yield KeyedApp(app, ADMIN_KEY)


@contextmanager
def _serving(directory, catalog_url=""):
    with model_server() as models:
        settings = {
            "workers": 2,
            "api_key": ADMIN_KEY,
            "mcp_write": "on",
            "log_level": "info",
            "chat_provider": "openai",
            "chat_url": f"{models.url}/v1",
            "chat_model": "chatty",
            **({"catalog_url": catalog_url} if catalog_url else {}),
        }
        with live_service(directory, **settings) as service:
            keyed = KeyedService(service, ADMIN_KEY, catalog_url)
            keyed.fill_contracts()
            yield keyed


@pytest.fixture(scope="session")
def keyed(tmp_path_factory, processes):
    """A service of two workers on SQLite. All tests share it: what one of them makes has a name of its own, and is
    nothing that callers of `mine*` may see, or is gone afterwards."""
    with _serving(tmp_path_factory.mktemp("keyed")) as keyed:
        yield keyed


@pytest.fixture(scope="session")
def keyed_on_postgresql(tmp_path_factory, postgres):
    """The same on PostgreSQL, for what depends on the catalogue between the workers."""
    with postgres.catalogue() as url, _serving(tmp_path_factory.mktemp("keyed-on-postgresql"), url) as keyed:
        yield keyed


@pytest.fixture(params=["sqlite", "postgresql"])
def on_either(request, processes):
    """The service on SQLite and the one on PostgreSQL."""
    return request.getfixturevalue("keyed" if request.param == "sqlite" else "keyed_on_postgresql")
