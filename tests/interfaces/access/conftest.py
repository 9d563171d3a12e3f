"""The audit log of the service in this process, calls of tools by MCP, and keys that change."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from interfaces.compose import create_app
from schemas.access.api_keys import Grant
from schemas.access.callers import Limits, Scope
from schemas.settings import AccessSettings, RetrievalSettings, WrapperSettings
from tests.interfaces.access.asking import DOCUMENT, Asking
from tests.support.apps import ONE_LOOK, models_of
from tests.support.contract import CheckedClient
from tests.support.model_server import model_server
from tests.wrapper.audit.conftest import lines_of
from wrapper.access.authentication import FRESH_SECONDS, Authentication
from wrapper.access.stored_keys import StoredKeys

NOBODY = "http://127.0.0.1:9"


class ClockedApp:
    """An app without an engine, whose keys change when it is told to. `models` is its embedding service."""

    def __init__(self, app, models):
        self.app, self.models = app, models
        self._seconds = 0.0
        stored = StoredKeys(app.extensions["rag.service"].catalog)
        self._access = app.extensions["rag.access"] = Authentication(
            AccessSettings(access="keys"), "127.0.0.1", stored, clock=lambda: self._seconds
        )

    def key(self, *scopes):
        """Return (a new key, its text)."""
        return self._access.stored.create("changes", Grant(frozenset(scopes)))

    def change(self, key, *scopes, collections=None, **limits):
        grant = Grant(frozenset(scopes), collections, limits=Limits(**limits))
        self._access.stored.change(key.id, lambda before: replace(before, grant=grant))
        self._seconds += FRESH_SECONDS

    def revoke(self, key):
        self._access.stored.revoke(key.id)
        self._seconds += FRESH_SECONDS


@contextmanager
def app_with_keys(folder, registry, retrieval, *, oidc=None, **access):
    """Run an app without an engine that asks for keys."""
    app = create_app(
        WrapperSettings(
            data_dir=folder,
            chroma_url=NOBODY,
            write_wait_seconds=0.0,
            disk_floor_mb=1,
            log_level="error",
            log_format="json",
        ),
        replace(registry, health_look_seconds=ONE_LOOK),
        retrieval,
        AccessSettings(access="keys", **access),
        oidc_settings=oidc,
    )
    app.test_client_class = CheckedClient
    try:
        yield app
    finally:
        app.extensions["rag.service"].close()


@pytest.fixture(scope="module")
def clocked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clocked")
    with (
        model_server() as server,
        app_with_keys(folder, models_of(server), RetrievalSettings(mcp_write=True)) as app,
    ):
        yield ClockedApp(app, server)


@pytest.fixture(scope="module")
def admin(clocked):
    """`admin(method, path, body)`: the answer to an administrator, who has made a collection and a document."""
    client = clocked.app.test_client()
    headers = {"Authorization": f"Bearer {clocked.key(Scope.ADMIN)[1]}"}

    def ask(method, path, body=None):
        return client.open(path, method=method, json=body, headers=headers)

    assert ask("POST", "/collections", {"name": "docs"}).status_code == 201
    assert ask("POST", "/collections/docs/documents", {"documents": [DOCUMENT]}).status_code == 202
    text = {"text": DOCUMENT["text"], "title": "Vault", "source": "house", "path": "vault"}
    assert ask("POST", "/api/rag/ingest", text).status_code == 200
    return ask


@pytest.fixture
def reading(clocked, admin):
    return Asking(clocked, Scope.READ)


@pytest.fixture
def lines(app):
    """`lines()` returns what has been added to the log since it was last called."""
    return new_lines(app)


def new_lines(app):
    folder = app.extensions["rag.service"].settings.data_dir / "audit"
    seen = len(lines_of(folder))

    def new():
        nonlocal seen
        found = lines_of(folder)
        seen, found = len(found), found[seen:]
        return found

    return new


def mcp(client, tool, headers=None, **arguments):
    """Call a tool by MCP over HTTP and return the answer."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    return client.post("/mcp", json=message, headers=headers)
