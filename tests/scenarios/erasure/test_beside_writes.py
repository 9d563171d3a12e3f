"""What is written while something is erased is stored whole or erased whole, also when the erasure is killed."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from retrieval.erasing.pending import PendingErasures
from tests.scenarios.databases import ON_BOTH
from tests.scenarios.erasure.conftest import check_gone, erase, files_with, store
from tests.support.live import PATIENCE_SECONDS, eventually
from wrapper.erasing.storage_erasure import StorageErasure


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
def send(app, collection, word):
    """`send()` stores the pieces of the erased document anew, under their old ids and with other words."""
    told = [
        {"id": f"{word}id{number}", "text": f"Piece {number} as it was sent again.", "embedding": [1.0, 2.0, 3.0, 4.0]}
        for number in range(20)
    ]
    return lambda: app.test_client().post(f"/collections/{collection}/documents", json={"documents": told})


@ON_BOTH
def test_a_document_that_is_stored_again_while_it_is_erased_is_whole(client, collection, word, pieces, send, beside):
    stored = beside(send)
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
    client, collection, word, other, pieces, send, kill
):
    """What was found then may be something else by the time of the next erasure."""
    kill(PendingErasures, "keep")
    assert client.get(f"/collections/{collection}").json["count"] == 40
    assert send().status_code == 201
    assert erase(client, collection=collection, document=f"{other}id0")["chunks"] == 1
    assert len(pieces()) == 20
    assert erase(client, collection=collection, where={"of": word})["chunks"] == 0


@pytest.mark.slow
def test_an_erasure_that_was_killed_after_it_had_deleted_is_gone_on_with(
    app, client, collection, word, pieces, send, kill
):
    for step in ("delete", "renew_index", "clean_engine", "rewrite_catalogue"):
        kill(StorageErasure, step)
        assert pieces() == [], step
    assert send().status_code == 201
    receipt = erase(client, collection=collection, where={"of": word})
    assert (receipt["chunks"], receipt["documents"]) == (20, 20)
    assert len(pieces()) == 20
    assert files_with(app, f"of {word}, with words") == []
