"""An app with keys, on an engine that never answers."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from flask.testing import FlaskClient

from schemas.access.api_keys import Grant
from schemas.access.callers import Limits, Scope
from schemas.settings import AccessSettings, WrapperSettings
from tests.support.catalogues import one_database
from tests.support.contract import CheckedClient
from wrapper import create_app
from wrapper.catalog.catalog import Catalog

NOBODY = "http://127.0.0.1:9"
BOOTSTRAP = "an-administrators-key"


class LimitedApp:
    """An app, and clients of it by new keys."""

    def __init__(self, app):
        self.app = app
        self._keys = app.extensions["rag.access"].stored

    def key(self, *scopes, collections=None, where=None, **limits):
        """Return the headers of a new key."""
        given = frozenset(map(Scope, scopes or ("manage",)))
        _, text = self._keys.create("limited", Grant(given, collections, where, limits=Limits(**limits)))
        return {"Authorization": f"Bearer {text}"}

    def client(self):
        return self.app.test_client()

    def plain_client(self):
        """Return a client that does not compare answers with the description, nor read them to their end."""
        return FlaskClient(self.app, self.app.response_class)


@pytest.fixture(params=["sqlite", "postgresql"])
def catalog(request):
    """A catalogue of the test's own, on SQLite and on PostgreSQL."""
    with one_database(request) as open_one:
        catalog = Catalog(open_one())
        catalog.open()
        yield catalog


@pytest.fixture
def limited_app(tmp_path):
    """`with limited_app() as app:` gives an app that asks for keys."""

    @contextmanager
    def limited_app(**settings):
        app = create_app(
            WrapperSettings(
                data_dir=tmp_path,
                chroma_url=NOBODY,
                write_wait_seconds=0.0,
                log_level="error",
                log_format="json",
                disk_floor_mb=1,
                **settings,
            ),
            AccessSettings(access="keys", api_key=BOOTSTRAP),
        )
        app.test_client_class = CheckedClient
        try:
            yield LimitedApp(app)
        finally:
            app.extensions["rag.service"].close()

    return limited_app


def at(year, month, day, hour=0, minute=0):
    return datetime(year, month, day, hour, minute, tzinfo=UTC)
