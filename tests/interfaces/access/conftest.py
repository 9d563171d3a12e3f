"""The audit log of the service in this process, calls of tools by MCP, and keys that change; callers who hold a request
open while their key ends, is narrowed or stays."""

import uuid
from contextlib import contextmanager
from dataclasses import replace

import pytest

from interfaces.compose import create_app
from schemas.access.api_keys import Grant
from schemas.access.callers import Limits, Scope
from schemas.settings import AccessSettings, RetrievalSettings, WrapperSettings
from tests.support.apps import ONE_LOOK, models_of
from tests.support.contract import CheckedClient
from tests.support.model_server import chat_answer, model_server, openai_answer
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
    with model_server() as server, app_with_keys(folder, models_of(server), RetrievalSettings(mcp_write=True)) as app:
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


def headers_of(app, *scopes, **granted):
    """Return the headers of a new key with these scopes, and whatever else it is granted."""
    _, text = app.extensions["rag.access"].stored.create("somebody", Grant(frozenset(scopes), **granted))
    return {"Authorization": f"Bearer {text}"}


def rows_of(app, sql, *parameters):
    with app.extensions["rag.service"].catalog.read() as transaction:
        return [tuple(row) for row in transaction.rows(sql, parameters)]


def mcp(client, tool, headers=None, **arguments):
    """Call a tool by MCP over HTTP and return the answer."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    return client.post("/mcp", json=message, headers=headers)


def sent(client, request, headers):
    """Send a request of tests/access/asking and return the answer."""
    body = {"data": request.body} if isinstance(request.body, bytes) else {"json": request.body}
    own = {name.replace("_", "-"): text for name, text in request.headers.items()}
    return client.open(request.path, method=request.method, headers={**headers, **own}, **body)


DOCUMENT = {"id": "a", "text": "The vault opens at nine.", "embedding": [1.0, 0.0]}
"""The document of the collection `docs`."""
ENDS = {
    "revoked": lambda clocked, key, scope: clocked.revoke(key),
    "other scopes": lambda clocked, key, scope: clocked.change(key, Scope.CHAT if scope is Scope.READ else Scope.READ),
    "other collections": lambda clocked, key, scope: clocked.change(key, scope, collections=("other-*",)),
}
"""What ends the rights of a key, by what was done."""


def code_of(how):
    return "key_revoked" if how == "revoked" else "key_unknown"


class Asking:
    """A client that asks with a key of its own, and may have something done while a model works for it."""

    def __init__(self, clocked, *scopes):
        self.clocked, self.client = clocked, clocked.app.test_client()
        self.scope = scopes[0]
        self.key, text = clocked.key(*scopes)
        self.headers = {"Authorization": f"Bearer {text}"}
        self.text = f"The door {uuid.uuid4()} opens at nine."

    def post(self, path, body, **headers):
        """Post the body with the client's own text in place of `NEW`."""
        body = {name: self.text if value == "NEW" else value for name, value in body.items()}
        return self.client.post(path, json=body, headers={**self.headers, **headers})

    def end(self, how="revoked"):
        ENDS[how](self.clocked, self.key, self.scope)

    def stay(self):
        """Change the key in what is none of its rights here."""
        self.clocked.change(self.key, self.scope, chats_per_day=1)

    def while_models_work(self, then, at=0):
        """Have `then` done during a call of a model, after `at` others, and return the calls from now on."""

        def answer(asked):
            then()
            return openai_answer(asked) if "input" in asked else chat_answer(asked)

        self.clocked.models.requests.clear()
        self.clocked.models.script += [*[openai_answer] * at, answer]
        return self.clocked.models.requests

    def traces(self):
        """Return the collections and tables that have the client's text."""
        assert not self.clocked.models.script, "the model was not asked"
        held = "SELECT c.name, d.text FROM documents d JOIN collections c ON c.key = d.collection_key"
        found = [name for name, text in rows_of(self.clocked.app, held) if self.text in text]
        said = str(rows_of(self.clocked.app, "SELECT * FROM chat_messages"))
        return found + ["chat_messages"] * (self.text in said)
