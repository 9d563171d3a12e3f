"""Run scenarios on SQLite, and those that are marked `ON_BOTH` on PostgreSQL too."""

import pytest

from schemas.settings import RetrievalSettings
from tests.support.apps import models_of, running_app
from tests.support.model_server import model_server

WRITING = RetrievalSettings(mcp_write=True)
"""The setting that offers all of MCP's tools."""


@pytest.fixture(scope="session")
def models():
    """A stub of the models that all scenarios share, so that they can share services too."""
    with model_server() as server:
        yield server


@pytest.fixture(scope="session")
def app_on_sqlite(tmp_path_factory):
    with running_app(tmp_path_factory.mktemp("sqlite"), retrieval=WRITING) as app:
        yield app


@pytest.fixture(scope="session")
def app_on_postgresql(tmp_path_factory, postgres):
    with (
        postgres.catalogue() as url,
        running_app(tmp_path_factory.mktemp("postgresql"), retrieval=WRITING, catalog_url=url) as app,
    ):
        yield app


@pytest.fixture(scope="session", params=["sqlite"])
def app(request):
    """The service on one database; it goes on while others are asked."""
    return request.getfixturevalue(f"app_on_{request.param}")


@pytest.fixture(scope="session")
def talking(tmp_path_factory, models):
    """A service whose embeddings and chats come from the stub."""
    with running_app(tmp_path_factory.mktemp("talking"), registry=models_of(models)) as app:
        yield app
