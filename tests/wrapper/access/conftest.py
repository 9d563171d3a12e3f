"""An app with keys, on an engine that never answers."""

from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

import pytest
from flask.testing import FlaskClient

from schemas.access.api_keys import Grant
from schemas.access.callers import Limits, Scope
from schemas.settings import AccessSettings
from tests.wrapper.audit.conftest import lines_of
from tests.wrapper.clock import Clock
from tests.wrapper.routes.conftest import app_without_engine

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
    return Clock(1_000.0)


def on_both(fixture="catalog"):
    """Run a test on PostgreSQL too: one of each store, since only its statements differ."""
    return pytest.mark.parametrize(fixture, ["sqlite", "postgresql"], indirect=True)


@contextmanager
def app_with_keys(data_dir, **settings):
    with app_without_engine(data_dir, AccessSettings(access="keys", api_key=BOOTSTRAP), **settings) as app:
        yield LimitedApp(app)


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
