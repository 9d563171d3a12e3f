"""The service for the tests: in this process with its real engine, and as a process of its own.

Both are started once per test run and shared; a test's own collections keep tests apart.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.apps import running_app
from tests.support.live import chroma_client, live_service
from tests.support.model_server import model_server
from tests.support.postgres import postgres_server

LONGEST = (
    "durability/test_adoption.py",
    "interfaces/test_demo.py",
    "interfaces/test_bench_command.py",
    "durability/test_slow_clients.py",
    "durability/test_own_chroma_server.py",
    "durability/test_random_kills.py",
    "durability/test_killed_service.py",
    "durability/test_stopping.py",
    "interfaces/test_watch_command.py",
    "properties/test_crashes.py",
    "durability/test_extremes.py",
    "docs/test_load_then_ask.py",
    "scenarios/test_rag_contract.py",
)
"""Files that take long, the longest first: begun at the end of a run, one of them would keep all but one process
waiting."""


def pytest_collection_modifyitems(items):
    """The longest files come first; all others stay in their order."""
    folder = Path(__file__).parent
    turns = {folder / name: turn for turn, name in enumerate(LONGEST)}
    items.sort(key=lambda item: turns.get(item.path, len(LONGEST)))


@pytest.fixture(scope="session")
def app(tmp_path_factory):
    """The service in this process, its engine a child on a scratch directory."""
    with running_app(tmp_path_factory.mktemp("app")) as app:
        yield app


@pytest.fixture
def client(app):
    """A client of `app` that checks every answer against openapi.yaml."""
    return app.test_client()


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    """`rag-wrapper serve` on a free port: gunicorn with one worker, as a user starts it."""
    with live_service(tmp_path_factory.mktemp("live"), max_body_mb=8) as service:
        yield service


@pytest.fixture
def session(live):
    with live.session() as session:
        yield session


@pytest.fixture(scope="session")
def chroma(app):
    """Chroma's own client on the engine behind `app`."""
    with chroma_client(app.extensions["rag.service"].settings.data_dir) as client:
        yield client


@pytest.fixture
def collection():
    """A name that no other test uses."""
    return f"test-{uuid.uuid4().hex[:16]}"


@pytest.fixture
def filled(client, collection):
    """`filled(documents, **fields)`: creates the test's collection with these documents and returns its name."""

    def fill(documents=(), **fields):
        created = client.post("/collections", json={"name": collection, **fields})
        assert created.status_code == 201, created.json
        if documents:
            added = client.post(f"/collections/{collection}/documents", json={"documents": list(documents)})
            assert added.status_code == 201, added.json
        return collection

    return fill


@pytest.fixture(scope="module")
def shared_collection(app):
    """`shared_collection(documents)`: the name of a collection for all tests of a module, which must not change it."""
    made = []

    def share(documents):
        name = f"shared-{uuid.uuid4().hex[:16]}"
        client = app.test_client()
        assert client.post("/collections", json={"name": name}).status_code == 201
        made.append(name)
        assert client.post(f"/collections/{name}/documents", json={"documents": documents}).status_code == 201
        return name

    yield share
    for name in made:
        app.test_client().delete(f"/collections/{name}")


@pytest.fixture
def unchanged(client):
    """`with unchanged(name):` fails when the block changes the collection: count, metadata or revision."""

    @contextmanager
    def watch(name):
        before = client.get(f"/collections/{name}").json
        yield
        assert client.get(f"/collections/{name}").json == before

    return watch


@pytest.fixture(scope="module")
def models():
    """A stub of an embedding and chat service, which no other module disturbs."""
    with model_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server for all tests of this process; those that stop it have one of their own."""
    with postgres_server() as server:
        yield server
