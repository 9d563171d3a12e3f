"""One service for each database, in which every test erases words of its own."""

import json
import uuid
from pathlib import Path

import pytest

from schemas.access.owners import USER_OWNER, Asker
from schemas.settings import RetrievalSettings
from tests.scenarios import databases
from tests.support.apps import models_of, running_app
from tests.support.commands import files_holding
from tests.support.live import eventually

SETTINGS = RetrievalSettings(mcp_write=True, keep_originals=True, log_queries=True)


def asker(name):
    return Asker(f"{USER_OWNER}{name}")


def send(client, collection, word, text=None, name=None, tag=None):
    """Upload a text as a file, without a tag with a word in all that is told of it. Return the id of the job."""
    text = text or f"# About {word}\n\nThe plan of {word} is a secret that nobody else has to know.\n"
    name = name or f"{word}name.md"
    told = {"collection": collection, "tags": tag or f"{word}tag"}
    if tag is None:
        told["metadata"] = json.dumps({"author": f"{word}author"})
    media_type = "text/html" if name.endswith(".html") else "text/markdown"
    headers = {"X-Filename": name, "Content-Type": media_type, "Idempotency-Key": uuid.uuid4().hex}
    answer = client.post("/api/documents", query_string=told, data=text.encode(), headers=headers)
    assert answer.status_code == 202, answer.json
    return answer.json["job"]["id"]


def files_of(client, job):
    """Return the files of a job when it is done."""
    eventually(lambda: client.get(f"/api/jobs/{job}").json["status"] == "done")
    return client.get(f"/api/jobs/{job}").json["files"]


def upload(client, *sent, **told):
    """Upload as `send` does. Return the id of the document."""
    (file,) = files_of(client, send(client, *sent, **told))
    return file["document_id"]


def add(client, collection, *documents, key=None):
    """Store documents as they are, in a collection that is made where there is none."""
    if client.get(f"/collections/{collection}").status_code == 404:
        assert client.post("/collections", json={"name": collection}).status_code == 201
    headers = {"Idempotency-Key": key or uuid.uuid4().hex}
    body = {"documents": documents}
    answer = client.post(f"/collections/{collection}/documents", json=body, headers=headers)
    assert answer.status_code == 201, answer.json
    return answer


def store(client, collection, *words):
    """Store twenty pieces of text about each word."""
    documents = [
        {
            "id": f"{word}id{number}",
            "text": f"Piece {number} of {word}, with words of its own.",
            "metadata": {"title": f"{word}title", "tags": [f"{word}tag"], "of": word},
            "embedding": [1.0 + number, *(ord(each) / 100 for each in word[-4:-1])],
        }
        for word in words
        for number in range(20)
    ]
    add(client, collection, *documents)


def ask(client, collection, word):
    """Ask about a document in every way that keeps something of the question or of the answer."""
    question = f"What is the plan of {word}?"
    chat = {"message": question, "useRag": True, "collections": [collection], "conversationId": f"{word}talk"}
    answer = client.post("/api/chat", json={**chat, "ragTopK": 1})
    assert answer.status_code == 200, answer.json
    assert word in json.dumps(answer.json["ragSources"])
    retrieve = {"query": question, "context_key": "a:b", "collection": collection, "min_relevance": 0}
    assert client.post("/api/rag/retrieve", json=retrieve).status_code == 200
    assert client.post("/api/search", json={"query": question, "collections": [collection]}).status_code == 200
    context = {"query": question, "sessionId": f"{word}session"}
    assert client.post("/tools/rag_context_search", json=context).status_code == 200
    assert client.post(f"/collections/{collection}/text-search", json={"query": word}).json["results"]


def erase(client, **body):
    answer = client.post("/api/erase", json=body)
    assert answer.status_code == 200, answer.json
    return answer.json["receipt"]


def removed(receipt):
    """Return how much was removed from each place."""
    return {each["place"]: each["removed"] for each in receipt["files"]}


def left(client, **body):
    """Return what is left of an erasure that cannot be finished."""
    answer = client.post("/api/erase", json=body)
    assert (answer.status_code, answer.json["code"]) == (503, "erasure_unfinished"), answer.json
    return answer.json["details"]["left"]


def files_with(app, word):
    return files_holding(app.extensions["rag.service"].settings.data_dir, word)


def tables_with(app, word):
    return databases.tables_with(app.extensions["rag.service"].catalog, word)


def check_gone(app, word):
    """Fail where a word is in any table or file."""
    assert tables_with(app, word) == []
    assert files_with(app, word) == []


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
        yield lambda: patch.setattr(runner._jobs, "due", lambda under_way: [])
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
