"""What is written while something is erased is stored whole or erased whole, also when the erasure is killed."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from retrieval.erasing.pending import PendingErasures
from tests.scenarios.test_erasure import CANARY, OTHER, erase, files_with, store, tables_with
from tests.scenarios.test_erasure import service as service  # its kinds of database
from tests.support.live import eventually
from wrapper.erasing.storage_erasure import StorageErasure

WAIT_SECONDS = 60


@pytest.fixture
def app(service):
    with service() as app:
        yield app


@pytest.fixture
def client(app):
    return app.test_client()


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
            return lambda: begun[0].result(WAIT_SECONDS)

        yield beside


def ids_in(client, collection):
    return sorted(
        each["id"] for each in client.get(f"/collections/{collection}/documents?limit=1000").json["documents"]
    )


def send(app, collection):
    """Store the pieces of the erased document anew, under their old ids and with other words."""
    pieces = [
        {
            "id": f"{CANARY}id{number}",
            "text": f"Piece {number} as it was sent again.",
            "embedding": [1.0, 2.0, 3.0, 4.0],
        }
        for number in range(20)
    ]
    return app.test_client().post(f"/collections/{collection}/documents", json={"documents": pieces})


def update(app, collection):
    """Make one piece of the document something that the erasure does not ask for."""
    changed = {"metadata": {"of": "something else"}}
    return app.test_client().patch(f"/collections/{collection}/documents/{CANARY}id7", json=changed)


def test_a_document_that_is_stored_again_while_it_is_erased_is_whole(app, client, collection, beside):
    store(client, collection, CANARY, OTHER)
    stored = beside(lambda: send(app, collection))
    receipt = erase(client, collection=collection, where={"of": CANARY})
    assert (stored().status_code, receipt["chunks"]) == (201, 20)
    assert len([each for each in ids_in(client, collection) if each.startswith(CANARY)]) == 20
    assert client.get(f"/collections/{collection}").json["count"] == 40


def test_a_document_that_would_stop_matching_while_it_is_erased_is_gone_by_then(app, client, collection, beside):
    store(client, collection, CANARY, OTHER)
    updated = beside(lambda: update(app, collection))
    receipt = erase(client, collection=collection, where={"of": CANARY})
    assert (updated().status_code, receipt["chunks"]) == (404, 20)
    assert [each for each in ids_in(client, collection) if each.startswith(CANARY)] == []
    assert tables_with(app, CANARY) == []
    assert files_with(app, CANARY) == []


class Killed(BaseException):
    """Ends a request as a kill ends a process."""


def erase_and_die(client, collection):
    with pytest.raises(Killed):
        client.post("/api/erase", json={"collection": collection, "where": {"of": CANARY}})


def test_an_erasure_that_was_killed_before_it_deleted_has_done_nothing(app, client, collection, monkeypatch):
    """What was found then may be something else by the time of the next erasure."""
    store(client, collection, CANARY, OTHER)
    keep = PendingErasures.keep

    def keeping(pending, erasures):
        keep(pending, erasures)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(PendingErasures, "keep", keeping)
        erase_and_die(client, collection)
    assert client.get(f"/collections/{collection}").json["count"] == 40
    assert send(app, collection).status_code == 201
    assert erase(client, collection=collection, document=f"{OTHER}id0")["chunks"] == 1
    assert len([each for each in ids_in(client, collection) if each.startswith(CANARY)]) == 20
    assert erase(client, collection=collection, where={"of": CANARY})["chunks"] == 0


def test_an_erasure_that_was_killed_after_it_had_deleted_is_gone_on_with(app, client, collection, monkeypatch):
    store(client, collection, CANARY, OTHER)
    delete = StorageErasure.delete

    def deleting(storage, asked, before):
        delete(storage, asked, before)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(StorageErasure, "delete", deleting)
        erase_and_die(client, collection)
    assert send(app, collection).status_code == 201
    receipt = erase(client, collection=collection, where={"of": CANARY})
    assert (receipt["chunks"], receipt["documents"]) == (20, 20)
    assert len([each for each in ids_in(client, collection) if each.startswith(CANARY)]) == 20
    assert not (app.extensions["rag.service"].settings.data_dir / "erasures-under-way").exists()
