"""One service for each database, in which every test erases words of its own."""

import uuid
from pathlib import Path

import pytest

from tests.scenarios.erasure.erasing import SETTINGS
from tests.support.apps import models_of, running_app
from tests.support.live import eventually

UNDER_WAY = ("queued", "running")


@pytest.fixture(scope="session")
def settings(models):
    """Of a service that asks a model for topics, and answers one request at a time that needs a model."""
    return {"registry": models_of(models, topic="chat"), "retrieval": SETTINGS, "service_threads": 1}


@pytest.fixture(scope="session")
def erasing_on_sqlite(tmp_path_factory, settings):
    with running_app(tmp_path_factory.mktemp("sqlite"), **settings) as app:
        yield app


@pytest.fixture(scope="session")
def erasing_on_postgresql(tmp_path_factory, settings, postgres):
    with (
        postgres.catalogue() as url,
        running_app(tmp_path_factory.mktemp("postgresql"), catalog_url=url, **settings) as app,
    ):
        yield app


@pytest.fixture(scope="session", params=["sqlite"])
def app(request):
    """The service on one database; it goes on while others are asked."""
    return request.getfixturevalue(f"erasing_on_{request.param}")


@pytest.fixture
def folder(app) -> Path:
    """The data directory."""
    return app.extensions["rag.service"].settings.data_dir


@pytest.fixture(autouse=True)
def _nothing_is_under_way_afterwards(request):
    folder = request.getfixturevalue("folder") if "app" in request.fixturenames else None
    yield
    assert folder is None or not (folder / "erasures-under-way").exists()


def new_word(end):
    """Return a word of letters that no other test uses; its end is not the end of an English word."""
    return "zq" + uuid.uuid4().hex[:8].translate(str.maketrans("0123456789", "ghijklmnop")) + end


@pytest.fixture
def word(models_up):
    """Marks everything that is to be erased, in every place."""
    word = new_word("ya")
    models_up.meanings[word] = [1, 0.1]
    return word


@pytest.fixture
def other(models_up):
    """Marks what stays."""
    word = new_word("yb")
    models_up.meanings[word] = [0.1, 1]
    return word


@pytest.fixture
def jobs_wait(app):
    """`jobs_wait()`: from now on, jobs wait until the test has ended, and then they end too."""
    runner = app.extensions["rag.layers"].job_runner
    with pytest.MonkeyPatch.context() as patch:
        yield lambda: patch.setattr(runner._jobs, "take", lambda: None)
    runner.call()
    jobs = app.test_client()
    eventually(lambda: {each["status"] for each in jobs.get("/api/jobs").json["jobs"]}.isdisjoint(UNDER_WAY))


@pytest.fixture
def meanwhile(models_up, monkeypatch):
    """`meanwhile(work)` has the next model that is asked, for words or for a vector, do some work before it answers."""

    def meanwhile(work, path="/v1/chat/completions"):
        usual, works = models_up.routes[path], [work]

        def answer(body):
            if works:
                works.pop()()
            return usual(body)

        monkeypatch.setitem(models_up.routes, path, answer)

    return meanwhile
