"""What may be asked to be erased, by which name, and what goes with it."""

import pytest

from schemas.access.callers import ANYBODY, acting_as
from schemas.access.owners import USER_OWNER, Asker
from schemas.contracts.collect import CollectRequest
from tests.scenarios.test_erasure import CANARY, OTHER, erase, upload
from tests.scenarios.test_erasure import service as service  # its kinds of database
from tests.scenarios.test_erasure_beside_writes import app as app  # a service of one of them
from tests.scenarios.test_erasure_beside_writes import client as client


def stored_in(client, collection):
    return client.get(f"/collections/{collection}/documents?limit=100").json["documents"]


def test_a_chunk_is_not_erased_without_its_document(client, collection):
    document = upload(client, collection, CANARY)
    upload(client, collection, OTHER)
    (chunk,) = [each["id"] for each in stored_in(client, collection) if each["metadata"]["document_id"] == document]

    refused = client.post("/api/erase", json={"collection": collection, "document": chunk})

    assert (refused.status_code, refused.json["code"]) == (400, "chunk_of_document")
    assert refused.json["details"] == {"field": "document", "document": document}
    assert len(stored_in(client, collection)) == 2
    assert erase(client, collection=collection, document=document)["chunks"] == 1
    assert erase(client, collection=collection, document=chunk)["documents"] == 0
    assert len(stored_in(client, collection)) == 1


def test_a_document_with_the_id_of_a_chunk_of_another_is_erased(client, collection):
    """An id that names a document means that one, whatever else has it."""
    assert client.post("/collections", json={"name": collection}).status_code == 201
    documents = [
        {"id": "a", "text": "A chunk of b.", "metadata": {"document_id": "b"}, "embedding": [1.0, 2.0]},
        {"id": "c", "text": "A chunk of a.", "metadata": {"document_id": "a"}, "embedding": [2.0, 1.0]},
    ]
    added = client.post(f"/collections/{collection}/documents", json={"documents": documents})
    assert added.status_code == 201
    assert erase(client, collection=collection, document="a")["chunks"] == 1
    assert [each["id"] for each in stored_in(client, collection)] == ["a"]


def test_documents_of_another_database_are_erased_by_its_full_name(app, client, collection):
    with acting_as(ANYBODY):
        app.extensions["rag.service"].callers_store.namespaces.create_database("default_tenant", collection)
    places, full = ("", f"?database={collection}"), f"/default_tenant/{collection}/{collection}"
    document = {"id": "a", "text": f"About {CANARY}.", "embedding": [1.0, 2.0]}
    for place in places:
        assert client.post(f"/collections{place}", json={"name": collection}).status_code == 201
        documents = [document, {"id": "b", "text": "Another.", "embedding": [2.0, 1.0]}]
        client.post(f"/collections/{collection}/documents{place}", json={"documents": documents})

    receipt = erase(client, collection=full, document="a")

    assert (receipt["collection"], receipt["documents"]) == (full, 1)
    left = [client.get(f"/collections/{collection}/documents{place}").json["documents"] for place in places]
    assert [[each["id"] for each in documents] for documents in left] == [["a", "b"], ["b"]]
    missing = client.post("/api/erase", json={"collection": f"{full}-none", "document": "a"})
    assert (missing.status_code, missing.json["details"]) == (404, {"collection": f"{full}-none"})
    malformed = client.post("/api/erase", json={"collection": "/a/b", "document": "a"})
    assert (malformed.status_code, malformed.json["details"]) == (400, {"field": "collection"})


@pytest.mark.parametrize("notes", ["none", "private", "shared"])
def test_topics_of_others_go_with_a_user_only_when_they_may_be_about_their_notes(app, client, notes):
    layers = app.extensions["rag.layers"]
    ada, bob = (Asker(f"{USER_OWNER}{name}") for name in ("ada", "bob"))
    with acting_as(ANYBODY):
        for asker, is_shared in ((ada, notes == "shared"), (bob, True)):
            if asker is bob or notes != "none":
                session = layers.notes.start("session", asker=asker, shared=is_shared)
                layers.notes.note("I know the plan.", session.id, asker=asker)
            layers.conversations.follow("talk", CollectRequest("What is the plan?", "", "", ()), owner=asker.owner)

    erase(client, user=ada.owner)

    with app.extensions["rag.service"].catalog.read() as transaction:
        left = [owner for (owner,) in transaction.rows("SELECT owner FROM conversation_topics")]
    assert left == ([] if notes == "shared" else [bob.owner])
