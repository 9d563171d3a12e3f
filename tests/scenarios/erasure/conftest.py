"""One service for each database, in which every test erases words of its own."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.scenarios.erasure.erasing import SETTINGS
from tests.support.apps import models_of, running_app
from tests.support.model_server import model_server


@pytest.fixture(scope="session")
def models():
    """A stub of the models that all tests of erasure share."""
    with model_server() as server:
        yield server


@pytest.fixture(scope="session")
def settings(models):
    """Of a service that asks a model for topics, and answers one request at a time that needs a model."""
    return {"registry": models_of(models, topic="chat"), "retrieval": SETTINGS, "service_threads": 1}


@pytest.fixture(scope="session")
def app_on_sqlite(tmp_path_factory, settings, processes):
    with running_app(tmp_path_factory.mktemp("sqlite"), **settings) as app:
        yield app


@pytest.fixture(scope="session")
def app_on_postgresql(tmp_path_factory, settings, postgres):
    with (
        postgres.catalogue() as url,
        running_app(tmp_path_factory.mktemp("postgresql"), catalog_url=url, **settings) as app,
    ):
        yield app


@pytest.fixture
def folder(app) -> Path:
    """The data directory. Nothing of an erasure is under way in it after the test."""
    folder = app.extensions["rag.service"].settings.data_dir
    yield folder
    assert not (folder / "erasures-under-way").exists()


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
def jobs_wait(app, monkeypatch):
    """`jobs_wait()`: from now on, jobs wait until the test has ended."""
    jobs = app.extensions["rag.layers"].job_runner._jobs
    return lambda: monkeypatch.setattr(jobs, "take", lambda: None)


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
