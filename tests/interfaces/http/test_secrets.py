"""What a request says is never taken for a placeholder, and leaves nothing open behind it."""

import os
import threading

import pytest

from schemas.settings import RegistrySettings
from tests.support.apps import running_app
from tests.support.live import eventually
from tests.support.model_server import model_server

PLANTED = {
    "RAG_CHAT_API_KEY": "sk-planted-chat-51c2",
    "RAG_EMBEDDING_API_KEY": "sk-planted-embedding-77ab",
    "SECRET_API_KEY": "sk-planted-secret-0f3e",
}


@pytest.fixture(scope="module")
def models():
    with model_server() as server:
        yield server


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, models):
    """The service whose embeddings and chat are the stub's, and whose environment and files hold what nobody may see."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in PLANTED.items():
            patch.setenv(name, value)
        url = f"{models.url}/v1"
        settings = RegistrySettings(
            embedding_provider="openai",
            embedding_url=url,
            embedding_model="stub",
            chat_provider="openai",
            chat_url=url,
            chat_model="chatty",
        )
        with running_app(tmp_path_factory.mktemp("guarded"), registry=settings) as app:
            yield app


@pytest.fixture
def asking(guarded, models):
    """A client; `asking.said()` are the bodies that the stub got since."""
    client = guarded.test_client()
    before = len(models.requests)
    client.said = lambda: [each.body for each in models.requests[before:]]
    return client


def selected(**more):
    return [{"service": "local", "name": "nothing", **more}]


@pytest.mark.parametrize("model", ["${RAG_CHAT_API_KEY}", "${SECRET_API_KEY}", "${file:/run/secrets/key}", "a$$b"])
def test_the_model_of_a_request_is_sent_as_it_is(asking, model):
    answered = asking.post("/api/chat", json={"message": "hello", "model": model})
    collected = asking.post(
        "/api/collect", json={"userMessage": f"hello {model}", "selectedCollections": selected(embedding_model=model)}
    )
    assert (answered.status_code, collected.status_code) == (200, 200)
    eventually(lambda: [body["model"] for body in asking.said()] == [model, model], seconds=20)


@pytest.mark.parametrize("model", ["", " ", "x" * 257, "line\nbreak", 7])
def test_a_model_that_cannot_be_one_is_refused_by_field(asking, model):
    asked = {"userMessage": "hello", "selectedCollections": selected(embedding_model=model)}
    collected = asking.post("/api/collect", json=asked)
    answered = asking.post("/api/chat", json={"message": "hello", "model": model})
    assert (collected.status_code, answered.status_code) == (400, 400)
    assert collected.json["details"]["field"] == "selectedCollections.0.embedding_model"
    assert answered.json["details"]["field"] == "model"
    assert asking.said() == []


def test_the_local_model_says_that_it_is_the_only_one(client, filled):
    name = filled()
    asked = {"service": "local", "name": name, "embedding_model": "another"}
    answer = client.post("/api/collect", json={"userMessage": "hello", "selectedCollections": [asked]}).json
    [receipt] = answer["receipt"]["collections"]
    assert receipt["error"] == "The provider 'minilm' has only the model 'all-MiniLM-L6-v2', not 'another'"


def test_eighty_models_of_requests_leave_no_file_and_no_thread_open(asking):
    def ask(number):
        body = {"userMessage": f"hello {number}", "selectedCollections": selected(embedding_model=f"model-{number}")}
        assert asking.post("/api/collect", json=body).status_code == 200
        assert asking.post("/api/chat", json={"message": "hello", "model": f"model-{number}"}).status_code == 200

    ask(0)
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for number in range(1, 81):
        ask(number)
    eventually(lambda: len(asking.said()) == 162, seconds=20)
    assert {body["model"] for body in asking.said()} == {f"model-{number}" for number in range(81)}
    # A few come and go with what the service does by itself.
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= files + 8, seconds=20)
    eventually(lambda: threading.active_count() <= threads + 8, seconds=20)
