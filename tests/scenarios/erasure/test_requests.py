"""What may be asked to be erased, by which name, and what goes with it."""

import pytest

from schemas.access.callers import ANYBODY, acting_as
from schemas.contracts.collect import CollectRequest
from tests.scenarios.erasure.conftest import add, asker, erase, upload


@pytest.fixture
def stored(client, collection):
    return lambda: client.get(f"/collections/{collection}/documents?limit=100").json["documents"]


@pytest.mark.slow
def test_a_chunk_is_not_erased_without_its_document_but_a_document_with_the_id_of_one_is(
    client, collection, stored, word, other
):
    document = upload(client, collection, word)
    upload(client, collection, other)
    (chunk,) = [each["id"] for each in stored() if each["metadata"]["document_id"] == document]

    refused = client.post("/api/erase", json={"collection": collection, "document": chunk})

    assert (refused.status_code, refused.json["code"]) == (400, "chunk_of_document")
    assert refused.json["details"] == {"field": "document", "document": document}
    assert len(stored()) == 2
    assert erase(client, collection=collection, document=document)["chunks"] == 1
    assert erase(client, collection=collection, document=chunk)["documents"] == 0
    assert len(stored()) == 1
    # An id that names a document means that one, whatever else has it.
    vector = client.get(f"/collections/{collection}/documents?include=embedding").json["documents"][0]["embedding"]
    of_b = {"id": "a", "text": "A chunk of b.", "metadata": {"document_id": "b"}, "embedding": vector}
    of_a = {"id": "c", "text": "A chunk of a.", "metadata": {"document_id": "a"}, "embedding": vector}
    add(client, collection, of_b, of_a)
    assert erase(client, collection=collection, document="a")["chunks"] == 1
    assert "a" in [each["id"] for each in stored()]


def test_documents_of_another_database_are_erased_by_its_full_name(app, client, collection, word):
    with acting_as(ANYBODY):
        app.extensions["rag.service"].callers_store.namespaces.create_database("default_tenant", collection)
    places, full = ("", f"?database={collection}"), f"/default_tenant/{collection}/{collection}"
    document = {"id": "a", "text": f"About {word}.", "embedding": [1.0, 2.0]}
    for place in places:
        assert client.post(f"/collections{place}", json={"name": collection}).status_code == 201
        documents = [document, {"id": "b", "text": "Another.", "embedding": [2.0, 1.0]}]
        client.post(f"/collections/{collection}/documents{place}", json={"documents": documents})

    receipt = erase(client, collection=full, document="a")

    assert (receipt["collection"], receipt["documents"]) == (full, 1)
    found = [client.get(f"/collections/{collection}/documents{place}").json["documents"] for place in places]
    assert [[each["id"] for each in documents] for documents in found] == [["a", "b"], ["b"]]
    missing = client.post("/api/erase", json={"collection": f"{full}-none", "document": "a"})
    assert (missing.status_code, missing.json["details"]) == (404, {"collection": f"{full}-none"})
    malformed = client.post("/api/erase", json={"collection": "/a/b", "document": "a"})
    assert (malformed.status_code, malformed.json["details"]) == (400, {"field": "collection"})


@pytest.mark.slow
def test_topics_of_others_go_with_a_user_only_when_they_may_be_about_their_notes(app, client, word, other):
    layers = app.extensions["rag.layers"]
    ada, bob = asker(word), asker(other)

    def take_notes(asker, is_shared):
        session = layers.notes.start("session", asker=asker, shared=is_shared)
        layers.notes.note("I know the plan.", session.id, asker=asker)

    def owners_of_topics():
        with app.extensions["rag.service"].catalog.read() as transaction:
            owners = [owner for (owner,) in transaction.rows("SELECT owner FROM conversation_topics")]
        return {each for each in owners if each in (ada.owner, bob.owner)}

    for notes in ("none", "private", "shared"):
        with acting_as(ANYBODY):
            if notes != "none":
                take_notes(ada, notes == "shared")
            take_notes(bob, True)
            for each in (ada, bob):
                layers.conversations.follow("talk", CollectRequest("What is the plan?", "", "", ()), owner=each.owner)
        assert owners_of_topics() == {ada.owner, bob.owner}

        erase(client, user=ada.owner)

        assert owners_of_topics() == (set() if notes == "shared" else {bob.owner}), notes
