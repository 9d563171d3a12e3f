"""What is erased is in no file and no table any more, and nothing else is missing."""

import io
import json

import numpy as np
import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import ANYBODY, Scope, acting_as
from schemas.access.owners import Asker
from schemas.contracts.chat import ChatRequest, Message
from schemas.contracts.collect import CollectRequest
from schemas.contracts.jobs import Wanted
from schemas.contracts.watchers import FailedFile, WatcherReport
from tests.scenarios.databases import ON_BOTH
from tests.scenarios.erasure.conftest import (
    add,
    ask,
    asker,
    check_gone,
    erase,
    files_with,
    left,
    removed,
    send,
    store,
    tables_with,
    upload,
)
from tests.support.apps import running_app
from tests.support.commands import files_holding, run_command
from tests.support.live import eventually, live_service
from tests.wrapper.audit.conftest import lines_of


def check_that_the_others_are_there(client, collection, other):
    found = client.get(f"/collections/{collection}/documents?limit=100").json["documents"]
    assert found
    assert all(other in each["id"] or other in each["text"] for each in found)
    assert client.post(f"/collections/{collection}/text-search", json={"query": other}).json["results"]
    (stored,) = client.get(f"/collections/{collection}/documents?limit=1&include=embedding").json["documents"]
    query = {"query_embedding": stored["embedding"], "top_k": 1}
    assert client.post(f"/collections/{collection}/query", json=query).json["results"][0]["id"] == stored["id"]


def test_an_uploaded_document_is_in_no_file_after_its_erasure(tmp_path, settings, processes, collection, word, other):
    """Nor when the service has ended, nor after its next start."""
    with running_app(tmp_path / "data", **settings) as app:
        client = app.test_client()
        document = upload(client, collection, word)
        upload(client, collection, other)
        ask(client, collection, word)
        ask(client, collection, other)
        assert tables_with(app, word)
        assert files_with(app, word)

        receipt = erase(client, collection=collection, document=document)

        assert (receipt["documents"], receipt["chunks"]) == (1, 1)
        assert receipt["also_in"] == []
        gone = removed(receipt)
        assert (gone["originals"], gone["conversations"], gone["jobs and uploads"]) == (1, 1, 1)
        check_gone(app, word)
        check_that_the_others_are_there(client, collection, other)
        assert client.get(f"/api/chat/{other}talk").status_code == 200
        assert client.get(f"/api/chat/{word}talk").status_code == 404
    assert files_with(app, word) == []
    assert files_with(app, other)
    with running_app(tmp_path / "data", **settings) as app:
        check_that_the_others_are_there(app.test_client(), collection, other)
        assert tables_with(app, word) == []


@pytest.mark.slow
@ON_BOTH
def test_documents_that_match_are_in_no_file_after_their_erasure(app, client, folder, collection, word, other):
    store(client, collection, word, other)
    changed = {"text": f"It is {word} now."}
    assert client.patch(f"/collections/{collection}/documents/{word}id3", json=changed).status_code == 200
    found = client.get(f"/collections/{collection}/documents/{word}id0?include=embedding").json
    vector = np.asarray(found["embedding"], dtype="<f4").tobytes()

    receipt = erase(client, collection=collection, where={"of": word})

    assert (receipt["documents"], receipt["chunks"]) == (20, 20)
    check_gone(app, word)
    assert files_holding(folder, vector) == []
    check_that_the_others_are_there(client, collection, other)
    again = erase(client, collection=collection, where={"of": word})
    assert (again["documents"], again["chunks"]) == (0, 0)


@pytest.mark.slow
def test_a_document_that_was_deleted_before_can_still_be_erased(app, client, collection, word, other):
    document = upload(client, collection, word)
    upload(client, collection, other)
    ask(client, collection, word)
    assert client.delete(f"/api/documents/{document}?collection={collection}").status_code == 200

    receipt = erase(client, collection=collection, document=document)

    assert (receipt["documents"], receipt["chunks"]) == (0, 0)
    check_gone(app, word)


@pytest.mark.slow
def test_a_kept_file_is_in_no_file_after_the_erasure_of_its_document(app, client, word, other):
    """A file that is kept for its owner goes with the document that was made of it."""
    made = client.post("/v1/vector_stores", json={"name": "kept"}).json
    place, files = f"/v1/vector_stores/{made['id']}/files", {}
    for each in (word, other):
        form = {"purpose": "assistants", "file": (io.BytesIO(f"# Of {each}".encode()), f"{each}name.md")}
        files[each] = client.post("/v1/files", data=form).json["id"]
        client.post(place, json={"file_id": files[each], "attributes": {"of": f"{each}author"}})
        eventually(lambda each=each: client.get(f"{place}/{files[each]}").json["status"] == "completed")
    listed = client.get(f"/api/documents?collection={made['collection']}").json["documents"]
    (document,) = [each["id"] for each in listed if word in each["name"]]
    assert files_with(app, word)

    receipt = erase(client, collection=made["collection"], document=document)

    gone = removed(receipt)
    assert (gone["kept files"], gone["originals"], gone["jobs and uploads"]) == (1, 1, 1)
    check_gone(app, word)
    assert client.get(f"/v1/files/{files[word]}").status_code == 404
    with client.get(f"/v1/files/{files[other]}/content") as answer:
        assert other in answer.text
    assert [each["id"] for each in client.get(place).json["data"]] == [files[other]]


@pytest.mark.slow
@ON_BOTH
def test_what_belongs_to_a_user_is_in_no_file_after_its_erasure(app, client, collection, word, other, jobs_wait):
    upload(client, collection, other)
    ask(client, collection, other)
    stored = app.extensions["rag.access"].stored
    key, _ = stored.create("ada", Grant(frozenset({Scope.WRITE, Scope.CHAT})))
    jobs_wait()
    _live_as(app, collection, key.owner, word)
    assert tables_with(app, word)

    receipt = erase(client, user=key.id)

    gone = removed(receipt)
    assert receipt["user"] == f"key:{key.owner}"
    assert (gone["conversations"], gone["sessions"], gone["watchers"]) == (1, 1, 1)
    assert (gone["topics"], gone["jobs and uploads"]) == (1, 1)
    assert _tables_of(app, f"key:{key.owner}") == []
    check_gone(app, word)
    check_that_the_others_are_there(client, collection, other)
    assert app.extensions["rag.layers"].chat.conversation(f"{other}talk", asker=Asker())
    assert stored.one(key.id).revoked_at is None


def _live_as(app, collection, owner, word):
    """Leave something in every place that belongs to a user."""
    layers = app.extensions["rag.layers"]
    asker = Asker(f"key:{owner}")
    job = layers.uploads.begin(asker=Asker())
    with acting_as(ANYBODY), job:
        session = layers.notes.start(f"{word}session", asker=asker)
        layers.notes.note(f"I am {word}.", session.id, asker=asker)
        layers.chat.answer(ChatRequest((Message("user", f"I am {word}."),)), asker=asker)
        layers.conversations.follow(f"{word}talk", CollectRequest(f"I am {word}.", "", "", ()), owner=asker.owner)
        report = WatcherReport("a", "watching", collection, failures=(FailedFile(word, word),))
        layers.watchers.report(f"{word}folder", report, asker=asker)
        job.take(f"{word}.md", "text/markdown", [f"I am {word}.".encode()])
        job.finish(Wanted(collection), asker=asker)


def _tables_of(app, owner):
    """Return the tables that hold anything of an owner. A part that learns of owners has to join the erasure."""
    catalog = app.extensions["rag.service"].catalog.freely
    columns = "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) p WHERE p.name = 'owner'"
    if catalog.kind != "sqlite":
        columns = (
            "SELECT table_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND column_name = 'owner'"
        )
    with catalog.read() as transaction:
        tables = [table for (table,) in transaction.rows(columns)]
        assert len(tables) > 5
        return [each for each in tables if transaction.row(f"SELECT 1 FROM {each} WHERE owner = ?", (owner,))]


def test_a_document_that_a_waiting_upload_would_store_again_is_not_erased(client, collection, word, jobs_wait):
    document = upload(client, collection, word)
    jobs_wait()
    job = send(client, collection, word, "# A\n\nb")

    refused = client.post("/api/erase", json={"collection": collection, "document": document})

    assert (refused.status_code, refused.json["code"]) == (409, "upload_waiting")
    assert refused.json["details"]["job"] == job
    assert client.get(f"/api/documents/{document}?collection={collection}").status_code == 200


def test_a_receipt_names_what_else_has_the_same_words(client, collection, word, other):
    store(client, collection, word)
    store(client, f"{collection}-b", word, other)
    refused = client.post("/api/erase", json={"collection": collection, "where": {"of": word}})
    assert (refused.status_code, refused.json["code"]) == (400, "matches_everything")
    receipt = erase(client, collection=collection, where={"of": word}, all=True)
    assert (receipt["chunks"], receipt["also_in"]) == (20, [f"collection '{collection}-b'"])


@pytest.mark.slow
def test_a_read_that_keeps_the_old_state_is_told(app, client, collection, word, other, monkeypatch):
    store(client, collection, word, other)
    storage = app.extensions["rag.layers"].erasure._storage
    asked = {"collection": collection, "where": {"of": word}}
    with app.extensions["rag.service"].catalog.read() as transaction, monkeypatch.context() as patch:
        patch.setattr(storage, "rewrite_catalogue", lambda *, until: type(storage).rewrite_catalogue(storage, until=0))
        transaction.rows("SELECT 1 FROM documents")
        assert list(left(client, **asked)) == ["catalogue"]
    assert erase(client, **asked)["chunks"] == 20
    assert files_with(app, word) == []


def test_the_command_erases_beside_two_workers(tmp_path, processes, word, other):
    with live_service(tmp_path, workers=2, write_wait_seconds=20) as service, service.session() as session:
        for name, words in (("alpha", (word, other)), ("beta", (f"{word}x", other))):
            made = session.post(f"{service.url}/collections", json={"name": name})
            assert made.status_code == 201
            documents = [
                {"id": f"{each}{number}", "text": f"Piece {number} of {each}.", "metadata": {"of": each}}
                | {"embedding": [1.0 + number, 2.0 if each == other else 30.0]}
                for each in words
                for number in range(30)
            ]
            added = session.post(f"{service.url}/collections/{name}/documents", json={"documents": documents})
            assert added.status_code == 201
        query = {"query_embedding": [1.0, 30.0], "top_k": 5}
        for _ in range(20):  # both workers hold what they are asked for
            assert word in session.post(f"{service.url}/collections/alpha/query", json=query).text

        erased = run_command(
            *("erase", "--collection", "alpha", "--where", json.dumps({"of": word}), "--url", service.url)
        )

        assert erased.returncode == 0, erased.stderr
        assert "30 documents (30 stored pieces) of 'alpha'" in erased.stdout
        for _ in range(20):
            assert word not in session.post(f"{service.url}/collections/alpha/query", json=query).text
            words = {"query": word}
            assert not session.post(f"{service.url}/collections/alpha/text-search", json=words).json()["results"]
        data_dir = service.data_dir  # by which its service is found
        erased = run_command("erase", "--collection", "beta", "--document", f"{word}x3", "--json", data_dir=data_dir)
        assert erased.returncode == 0, erased.stderr
        assert json.loads(erased.stdout)["receipt"]["chunks"] == 1
        missing = run_command("erase", "--collection", "gamma", "--document", "a", data_dir=data_dir)
        assert (missing.returncode, missing.stdout) == (2, "")
        rest = run_command(
            "erase", "--collection", "beta", "--where", json.dumps({"of": f"{word}x"}), data_dir=data_dir
        )
        assert rest.returncode == 0, rest.stderr
    assert files_holding(data_dir, word) == []
    recorded = [each for each in lines_of(data_dir / "audit") if each["route"] == "/api/erase"]
    who = [(each["key_id"], each["address"]) for each in recorded]
    assert who == [("open", "127.0.0.1")] * 4
    assert [(each["collection"], each["count"], each["status"]) for each in recorded] == [
        ("alpha", 30, 200),
        ("beta", 1, 200),
        ("gamma", None, 404),
        ("beta", 29, 200),
    ]


# What may be asked, by which name, and what goes with it.


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
