"""What is under way while something is erased does not store it again afterwards. What is written meanwhile is stored
whole or erased whole, also when the erasure is killed."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from retrieval.erasing.pending import PendingErasures
from schemas.access.callers import ANYBODY, acting_as
from schemas.contracts.chat import ChatRequest, Message
from schemas.contracts.collect import CollectRequest
from schemas.errors import ConflictError
from tests.scenarios.databases import ON_BOTH
from tests.scenarios.erasure.conftest import ask, asker, check_gone, erase, files_with, store, upload
from tests.support.live import PATIENCE_SECONDS, eventually
from wrapper.erasing.storage_erasure import StorageErasure


@pytest.fixture
def ada(collection):
    """A user whom no other test knows."""
    return asker(collection)


def count(app, table, where="1 = 1"):
    with app.extensions["rag.service"].catalog.read() as transaction:
        return transaction.row(f"SELECT count(*) FROM {table} WHERE {where}")[0]


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_made_from_a_document_that_is_erased_meanwhile_is_given_and_not_kept(
    app, client, collection, word, other, meanwhile, stream
):
    document = upload(client, collection, word)
    upload(client, collection, other)
    ask(client, collection, word)
    meanwhile(lambda: erase(app.test_client(), collection=collection, document=document))
    chat = {"message": f"What is {word}?", "useRag": True, "collections": [collection], "ragTopK": 1}

    answer = client.post("/api/chat", json={**chat, "conversationId": f"{word}late", "stream": stream})

    assert answer.status_code == 200
    assert '"message":"So it is."' in answer.get_data(as_text=True)
    assert word in answer.get_data(as_text=True)
    check_gone(app, word)
    ask(client, collection, other)
    assert client.get(f"/api/chat/{other}talk").status_code == 200


@pytest.mark.slow
def test_what_a_user_asks_while_they_are_erased_is_not_kept(app, client, word, ada, meanwhile):
    layers = app.extensions["rag.layers"]
    question = ChatRequest((Message("user", f"I am {word}."),))
    asked = CollectRequest(f"I am {word}.", "", "", ())
    asks = (
        lambda: layers.chat.answer(question, asker=ada),
        lambda: layers.conversations.follow("talk", asked, owner=ada.owner),
    )

    def kept():
        return [count(app, table, f"owner = '{ada.owner}'") for table in ("chat_messages", "conversation_topics")]

    for ask_model in asks:
        meanwhile(lambda: erase(app.test_client(), user=ada.owner))
        with acting_as(ANYBODY):
            ask_model()
        assert kept() == [0, 0]
        assert files_with(app, word) == []
    for ask_model in asks:
        with acting_as(ANYBODY):
            ask_model()
    assert kept() == [2, 1]


@pytest.mark.slow
@pytest.mark.parametrize("supersedes", [False, True])
def test_a_note_of_a_user_who_is_erased_meanwhile_is_refused(app, word, ada, meanwhile, supersedes):
    notes = app.extensions["rag.layers"].notes
    with acting_as(ANYBODY):
        session = notes.start("session", asker=ada)
        before = notes.note(f"I am {word}.", session.id, asker=ada).id if supersedes else None
        meanwhile(lambda: erase(app.test_client(), user=ada.owner), "/v1/embeddings")
        with pytest.raises(ConflictError) as refused:
            notes.note(f"I was {word}.", session.id, before, asker=ada)
    assert refused.value.code == "erased_meanwhile"
    check_gone(app, word)


@pytest.mark.slow
def test_what_is_found_while_something_is_erased_is_not_kept_as_an_answer(
    app, client, collection, word, other, meanwhile
):
    upload(client, collection, word)
    doomed = upload(client, collection, other)
    meanwhile(lambda: erase(app.test_client(), collection=collection, document=doomed), "/v1/embeddings")
    asked = {"query": f"Where is {word}?", "context_key": "a:b", "collection": collection, "min_relevance": 0}
    before = count(app, "kept_answers")
    for kept in (0, 1):
        assert client.post("/api/rag/retrieve", json=asked).status_code == 200
        assert count(app, "kept_answers") - before == kept


# Writes in the middle of an erasure, which may be killed.


@pytest.fixture
def beside(app, monkeypatch):
    """`beside(write)` begins a write in the middle of the next erasure: once that knows what to delete. The erasure
    goes on when the write is done or waits for it."""
    catalog, keep, begun = app.extensions["rag.service"].catalog.freely, PendingErasures.keep, []
    with ThreadPoolExecutor(1) as pool:

        def beside(write):
            def keeping(pending, erasures):
                keep(pending, erasures)
                if not begun:
                    begun.append(pool.submit(write))
                    eventually(lambda: begun[0].done() or catalog._commits.waiting)

            monkeypatch.setattr(PendingErasures, "keep", keeping)
            return lambda: begun[0].result(PATIENCE_SECONDS)

        yield beside


@pytest.fixture
def pieces(client, collection, word, other):
    """`pieces()`: the ids of the pieces of the document that is erased."""
    store(client, collection, word, other)

    def pieces():
        found = client.get(f"/collections/{collection}/documents?limit=1000").json["documents"]
        return [each["id"] for each in found if each["id"].startswith(word)]

    return pieces


@pytest.fixture
def send_again(app, collection, word):
    """`send_again()` stores the pieces of the erased document anew, under their old ids and with other words."""
    told = [
        {"id": f"{word}id{number}", "text": f"Piece {number} as it was sent again.", "embedding": [1.0, 2.0, 3.0, 4.0]}
        for number in range(20)
    ]
    return lambda: app.test_client().post(f"/collections/{collection}/documents", json={"documents": told})


@ON_BOTH
def test_a_document_that_is_stored_again_while_it_is_erased_is_whole(
    client, collection, word, pieces, send_again, beside
):
    stored = beside(send_again)
    receipt = erase(client, collection=collection, where={"of": word})
    assert (stored().status_code, receipt["chunks"]) == (201, 20)
    assert len(pieces()) == 20
    assert client.get(f"/collections/{collection}").json["count"] == 40


@ON_BOTH
def test_a_document_that_would_stop_matching_while_it_is_erased_is_gone_by_then(
    app, client, collection, word, pieces, beside
):
    changed, place = {"metadata": {"of": "something else"}}, f"/collections/{collection}/documents/{word}id7"
    updated = beside(lambda: app.test_client().patch(place, json=changed))
    receipt = erase(client, collection=collection, where={"of": word})
    assert (updated().status_code, receipt["chunks"]) == (404, 20)
    assert pieces() == []
    check_gone(app, word)


class Killed(BaseException):
    """Ends a request as a kill ends a process."""


@pytest.fixture
def kill(client, collection, word, monkeypatch):
    """`kill(owner, name)` erases until that method has done its work, and no further."""

    def kill(owner, name):
        method = getattr(owner, name)

        def ending(*given, **told):
            method(*given, **told)
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, ending)
            with pytest.raises(Killed):
                client.post("/api/erase", json={"collection": collection, "where": {"of": word}})

    return kill


@pytest.mark.slow
def test_an_erasure_that_was_killed_before_it_deleted_has_done_nothing(
    client, collection, word, other, pieces, send_again, kill
):
    """What was found then may be something else by the time of the next erasure."""
    kill(PendingErasures, "keep")
    assert client.get(f"/collections/{collection}").json["count"] == 40
    assert send_again().status_code == 201
    assert erase(client, collection=collection, document=f"{other}id0")["chunks"] == 1
    assert len(pieces()) == 20
    assert erase(client, collection=collection, where={"of": word})["chunks"] == 0


@pytest.mark.slow
def test_an_erasure_that_was_killed_after_it_had_deleted_is_gone_on_with(
    app, client, collection, word, pieces, send_again, kill
):
    for step in ("delete", "renew_index", "clean_engine", "rewrite_catalogue"):
        kill(StorageErasure, step)
        assert pieces() == [], step
    assert send_again().status_code == 201
    receipt = erase(client, collection=collection, where={"of": word})
    assert (receipt["chunks"], receipt["documents"]) == (20, 20)
    assert len(pieces()) == 20
    assert files_with(app, f"of {word}, with words") == []
