"""An app with keys, on an engine that never answers."""

from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

import pytest
from flask.testing import FlaskClient

from schemas.access.api_keys import Grant
from schemas.access.callers import Limits, Scope
from schemas.settings import AccessSettings, WrapperSettings
from tests.support.catalogues import one_database
from tests.support.contract import CheckedClient
from tests.wrapper.access.forked import Clock
from tests.wrapper.audit.conftest import lines_of
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


@pytest.fixture
def clock():
    """A clock of seconds of the test's own."""
    return Clock()


@pytest.fixture(params=["sqlite"])
def catalog(request):
    """A catalogue of the test's own, on SQLite; tests marked `on_both` have one on PostgreSQL too."""
    with one_database(request) as open_one:
        catalog = Catalog(open_one())
        catalog.open()
        yield catalog


def on_both(fixture="catalog"):
    """Run a test on PostgreSQL too: one of each store, since only its statements differ."""
    return pytest.mark.parametrize(fixture, ["sqlite", "postgresql"], indirect=True)


@contextmanager
def app_with_keys(data_dir, **settings):
    app = create_app(
        WrapperSettings(
            data_dir=data_dir,
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


@pytest.fixture
def limited_app(tmp_path):
    """`with limited_app() as app:` gives an app that asks for keys."""
    return partial(app_with_keys, tmp_path)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """An app that asks for keys, for all tests of a module."""
    with app_with_keys(tmp_path_factory.mktemp("keys")) as service:
        yield service


@pytest.fixture
def new_lines(service):
    """`new_lines()`: what the audit log of `service` has got since the test began."""
    folder = service.app.extensions["rag.service"].settings.data_dir / "audit"
    before = len(lines_of(folder))
    return lambda: lines_of(folder)[before:]


def at(year, month, day, hour=0, minute=0):
    return datetime(year, month, day, hour, minute, tzinfo=UTC)
