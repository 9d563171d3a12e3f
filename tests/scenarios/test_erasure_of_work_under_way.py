"""What is under way while something is erased does not store it again afterwards."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import ANYBODY, Scope, acting_as
from schemas.access.owners import USER_OWNER, Asker
from schemas.contracts.chat import ChatRequest, Message
from schemas.contracts.collect import CollectRequest
from schemas.errors import ConflictError, NotFoundError
from tests.scenarios.test_erasure import CANARY, OTHER, SETTINGS, ask, erase, files_with, tables_with, upload
from tests.support.apps import models_of, running_app
from tests.support.live import eventually
from wrapper.erasing.storage_erasure import StorageErasure
from wrapper.web.lanes import Lane

ADA = Asker(f"{USER_OWNER}ada")


@pytest.fixture
def app(tmp_path, models_up, processes):
    models_up.meanings = {CANARY: [1, 0.1], OTHER: [0.1, 1]}
    settings = {"registry": models_of(models_up, topic="chat"), "retrieval": SETTINGS}
    with running_app(tmp_path / "data", **settings, service_threads=1) as app:
        yield app


@pytest.fixture
def client(app):
    return app.test_client()


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


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_made_from_a_document_that_is_erased_meanwhile_is_given_and_not_kept(
    app, client, collection, meanwhile, stream
):
    document = upload(client, collection, CANARY)
    upload(client, collection, OTHER)
    ask(client, collection, CANARY)
    meanwhile(lambda: erase(app.test_client(), collection=collection, document=document))
    chat = {"message": f"What is {CANARY}?", "useRag": True, "collections": [collection], "ragTopK": 1}

    answer = client.post("/api/chat", json={**chat, "conversationId": f"{CANARY}late", "stream": stream})

    assert (answer.status_code, "So it is." in answer.get_data(as_text=True) or stream) == (200, True)
    assert CANARY in answer.get_data(as_text=True)
    assert tables_with(app, CANARY) == []
    assert files_with(app, CANARY) == []
    ask(client, collection, OTHER)
    assert client.get(f"/api/chat/{OTHER}talk").status_code == 200


def test_what_a_user_asks_while_they_are_erased_is_not_kept(app, client, meanwhile):
    layers = app.extensions["rag.layers"]
    question = ChatRequest((Message("user", f"I am {CANARY}."),))
    asked = CollectRequest(f"I am {CANARY}.", "", "", ())
    asks = (
        lambda: layers.chat.answer(question, asker=ADA),
        lambda: layers.conversations.follow("talk", asked, owner=ADA.owner),
    )
    for ask_model in asks:
        meanwhile(lambda: erase(app.test_client(), user=ADA.owner))
        with acting_as(ANYBODY):
            ask_model()
        assert [_count(app, table) for table in ("chat_messages", "conversation_topics")] == [0, 0]
        assert files_with(app, CANARY) == []
    for ask_model in asks:
        with acting_as(ANYBODY):
            ask_model()
    assert [_count(app, table) for table in ("chat_messages", "conversation_topics")] == [2, 1]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/chat", {"message": f"I am {CANARY}.", "conversationId": "talk"}),
        ("/api/rag/ingest", {"source": "web", "path": "/a", "title": "Plan", "text": f"I am {CANARY}."}),
        ("/tools/rag_context_search", {"query": f"I am {CANARY}.", "sessionId": "session"}),
    ],
)
def test_a_request_that_waits_for_its_turn_while_its_user_is_erased_is_refused(
    app, client, models_up, monkeypatch, path, body
):
    """It was sent before, and what it would keep came after the receipt."""
    key, text = app.extensions["rag.access"].stored.create(
        "ada", Grant(frozenset((Scope.READ, Scope.WRITE, Scope.CHAT)))
    )
    usual, busy, free = models_up.routes["/v1/chat/completions"], threading.Event(), threading.Event()
    lane = app.extensions["rag.lanes"]._places[Lane.SERVICE]

    def answer(body):
        busy.set()
        assert free.wait(60)
        return usual(body)

    def send(path, body):
        return app.test_client().post(path, json=body, headers={"Authorization": f"Bearer {text}"})

    monkeypatch.setitem(models_up.routes, "/v1/chat/completions", answer)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(send, "/api/chat", {"message": "Hello.", "conversationId": "first"})
        assert busy.wait(60)
        waits = pool.submit(send, path, body)
        eventually(lambda: lane._waiting)
        erase(client, user=key.id)
        free.set()
        assert first.result(60).status_code == 200
        refused = waits.result(60)
    assert (refused.status_code, refused.json["code"], "erased" in refused.text) == (503, "busy", True)
    assert tables_with(app, CANARY) == []
    assert files_with(app, CANARY) == []
    assert send(path, body).status_code == 200


def _count(app, table):
    with app.extensions["rag.service"].catalog.read() as transaction:
        return transaction.row(f"SELECT count(*) FROM {table}")[0]


@pytest.mark.parametrize("supersedes", [False, True])
def test_a_note_of_a_user_who_is_erased_meanwhile_is_refused(app, client, meanwhile, supersedes):
    notes = app.extensions["rag.layers"].notes
    with acting_as(ANYBODY):
        session = notes.start("session", asker=ADA)
        before = notes.note(f"I am {CANARY}.", session.id, asker=ADA).id if supersedes else None
        meanwhile(lambda: erase(app.test_client(), user=ADA.owner), "/v1/embeddings")
        with pytest.raises(ConflictError) as refused:
            notes.note(f"I was {CANARY}.", session.id, before, asker=ADA)
    assert refused.value.code == "erased_meanwhile"
    assert tables_with(app, CANARY) == []
    assert files_with(app, CANARY) == []


def test_a_session_that_a_user_starts_while_they_are_erased_stays(app, client, monkeypatch):
    notes, find = app.extensions["rag.layers"].notes, StorageErasure.collections_with
    started = []

    def finding(storage, where):
        with acting_as(ANYBODY):
            started.append(notes.start("another", asker=ADA))
        return find(storage, where)

    monkeypatch.setattr(StorageErasure, "collections_with", finding)
    with acting_as(ANYBODY):
        before = notes.start("session", asker=ADA)
        notes.note(f"I am {CANARY}.", before.id, asker=ADA)
        erase(client, user=ADA.owner)
        notes.note("I am somebody else.", started[0].id, asker=ADA)
        with pytest.raises(NotFoundError):
            notes.note("I am somebody else.", before.id, asker=ADA)
    assert files_with(app, CANARY) == []


def test_a_note_in_place_of_one_that_is_being_erased_is_refused_from_its_deletion_on(
    app, client, meanwhile, monkeypatch
):
    """It would bring that one back, and other places may not have been reached for seconds."""
    notes = app.extensions["rag.layers"].notes
    deleted, noted, delete = threading.Event(), threading.Event(), StorageErasure.delete

    def deleting(storage, asked, before):
        removed = delete(storage, asked, before)
        deleted.set()
        assert noted.wait(60)
        return removed

    monkeypatch.setattr(StorageErasure, "delete", deleting)
    with acting_as(ANYBODY):
        session = notes.start("session", asker=ADA)
        before = notes.note(f"I am {CANARY}.", session.id, asker=ADA)
    with ThreadPoolExecutor() as pool:
        erasing = []

        def begin():
            doomed = {"collection": SETTINGS.notes_collection, "document": before.id}
            erasing.append(pool.submit(erase, app.test_client(), **doomed))
            assert deleted.wait(60)

        meanwhile(begin, "/v1/embeddings")
        with acting_as(ANYBODY), pytest.raises(ConflictError) as refused:
            notes.note("I am somebody else.", session.id, before.id, asker=ADA)
        noted.set()
        erasing[0].result(60)
    assert refused.value.code == "erased_meanwhile"
    assert tables_with(app, CANARY) == []
    assert files_with(app, CANARY) == []


def test_what_is_found_while_something_is_erased_is_not_kept_as_an_answer(app, client, collection, meanwhile):
    upload(client, collection, CANARY)
    doomed = upload(client, collection, OTHER)
    meanwhile(lambda: erase(app.test_client(), collection=collection, document=doomed), "/v1/embeddings")
    asked = {"query": f"Where is {CANARY}?", "context_key": "a:b", "collection": collection, "min_relevance": 0}
    for kept in (0, 1):
        assert client.post("/api/rag/retrieve", json=asked).status_code == 200
        assert _count(app, "kept_answers") == kept
