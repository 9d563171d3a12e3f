"""Start the service for the tests: in this process with its real engine, and as a process of its own.

Both are started once per test run and shared. Tests stay apart by using collections of their own. `client` is
pytest-flask's: a client of `app` that checks every answer against openapi.yaml. A folder or module whose tests need
another service defines an `app` of its own.
"""

import signal
import subprocess
import uuid
from contextlib import ExitStack, contextmanager
from functools import cache

import pytest
from flask import Flask

from providers.embeddings import minilm
from tests.properties.profiles import load_profile
from tests.support.apps import ONE_LOOK, models_of, running_app
from tests.support.commands import ShortLived
from tests.support.contract import Contract
from tests.support.costs import shared
from tests.support.forking import Forked
from tests.support.gate import Gate
from tests.support.live import chroma_client, live_service
from tests.support.model_server import model_server
from tests.support.postgres import postgres_server
from wrapper.catalog.words import languages

load_profile()
SHARED = pytest.StashKey[Flask]()
"""The app that all tests of this process share, once it runs."""


def pytest_addoption(parser):
    parser.addoption(
        "--budget",
        action="store_true",
        help="fail when tests without the mark `slow` cost more than tests/budget.toml has",
    )


def pytest_configure(config):
    """Take Ctrl-C, which a run in the background would ignore, and with it every process that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Gate(config), "gate")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Let tests start commands quickly, and those without the mark `slow` no services, databases or browsers."""
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("executed") is None:
            patch.setattr(subprocess, "Popen", Forked if item.get_closest_marker("slow") else ShortLived)
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def _contract():
    """Read openapi.yaml before the first test, which would seem to be dear."""
    Contract.load()


@pytest.fixture(scope="session")
def processes():
    """Every test and fixture that starts a service, a database, a browser or a package manager requests this fixture.

    Such a test is `slow`: `make test` leaves it out unless it is the proof of a promise.
    """


@pytest.fixture(scope="session", autouse=True)
def _models_are_loaded_once():
    """Load what embeds and what tells languages once for all apps of this process: both are large and never change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minilm, "_load_model", cache(shared("all")(minilm._load_model)))
        patch.setattr(languages, "_identifier", cache(shared("all")(languages._identifier.__wrapped__)))
        patch.setattr(minilm, "MAX_BATCH_TOKENS", 256)  # what a run takes is kept for the next one
        yield


@pytest.fixture(autouse=True)
def _push_request_context():
    """Replace the fixture of pytest-flask, which pushes a request context around each test of an app.

    With that context, code that works only inside a request would seem to work outside of one.
    """


@pytest.fixture(scope="session")
def app(tmp_path_factory, request):
    """The service in this process, with its engine as a child process."""
    with running_app(tmp_path_factory.mktemp("app-of-all")) as app:
        request.config.stash[SHARED] = app
        yield app
        del request.config.stash[SHARED]


@pytest.fixture(scope="module", autouse=True)
def _collections_are_as_they_were(request):
    """Delete what a file of tests leaves in the app that all files share, and see that it is gone."""

    def names():
        if SHARED not in request.config.stash:
            return set()
        listed = request.config.stash[SHARED].test_client().get("/collections").json["collections"]
        return {each["name"] for each in listed}

    before = names()
    yield
    for name in names() - before:
        request.config.stash[SHARED].test_client().delete(f"/collections/{name}")
    assert names() == before


@pytest.fixture(scope="session")
def live(tmp_path_factory, processes):
    """`rag-wrapper serve` on a free port: gunicorn with one worker, as a user starts it. It stays open to all, also
    when a test makes a key."""
    with live_service(tmp_path_factory.mktemp("live"), max_body_mb=8, access="open") as service:
        yield service


@pytest.fixture
def session(live):
    with live.session() as session:
        yield session


@pytest.fixture
def chroma(app):
    """Chroma's own client on the engine behind `app`, whose port changes when an erasure has cleaned its database."""
    with chroma_client(app.extensions["rag.service"].settings.data_dir) as client:
        yield client


@pytest.fixture
def collection():
    """A collection name that no other test uses."""
    return f"test-{uuid.uuid4().hex[:16]}"


@pytest.fixture
def filled(client, collection):
    """`filled(documents, **fields)` creates the test's collection with these documents and returns its name. The
    collection goes with the test: all tests of a process share one engine."""

    def fill(documents=(), **fields):
        created = client.post("/collections", json={"name": collection, **fields})
        assert created.status_code == 201, created.json
        if documents:
            added = client.post(f"/collections/{collection}/documents", json={"documents": list(documents)})
            assert added.status_code == 201, added.json
        return collection

    yield fill
    client.delete(f"/collections/{collection}")


@pytest.fixture(scope="module")
def shared_collection(app):
    """`shared_collection(documents)` creates a collection for all tests of a module, which must not change it, and
    returns its name."""
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
    """`with unchanged(name):` fails when the block changes the count, metadata or revision of the collection."""

    @contextmanager
    def watch(name):
        before = client.get(f"/collections/{name}").json
        yield
        assert client.get(f"/collections/{name}").json == before

    return watch


@pytest.fixture(scope="module")
def models():
    """A stub of an embedding and chat service that no other module disturbs."""
    with model_server() as server:
        yield server


@pytest.fixture
def models_up(models):
    """The stub of the models, reset after the test."""
    yield models
    models.reset()


@pytest.fixture(scope="module")
def app_of_models(tmp_path_factory, models):
    """`app_of_models(chats=…, retrieval=…, look_seconds=…, **registry)` starts a service in this process that uses the
    stub for embeddings and, when it `chats`, for chat. It ends with the module."""
    with ExitStack() as stack:

        def start(*, chats=True, retrieval=None, look_seconds=ONE_LOOK, **registry):
            settings = models_of(models, chats=chats, **registry)
            data_dir = tmp_path_factory.mktemp("app-of-models")
            return stack.enter_context(
                running_app(data_dir, registry=settings, retrieval=retrieval, look_seconds=look_seconds)
            )

        yield start


@pytest.fixture(scope="session")
def postgres(processes):
    """A PostgreSQL server shared by all tests of this process; tests that stop a server start their own."""
    with postgres_server() as server:
        yield server
