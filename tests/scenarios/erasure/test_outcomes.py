"""What idempotency keys keep tells nothing of what is erased, and repeats still do nothing."""

from io import BytesIO

import pytest

from retrieval.ingest.identity import chunk_id
from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.settings import AccessSettings
from tests.scenarios.erasure.conftest import add, check_gone, erase, files_of, tables_with
from tests.support.apps import running_app
from wrapper.erasing.storage_erasure import StorageErasure


@pytest.fixture
def upload(word, other):
    """`upload(client, collection)` uploads two files with the one key of the collection."""

    def upload(client, collection):
        files = [(f"# About {each}\n\nThe plan of {each} is secret.\n", f"{each}name.md") for each in (word, other)]
        answer = client.post(
            "/api/documents",
            query_string={"collection": collection},
            data={"file": [(BytesIO(text.encode()), name) for text, name in files]},
            headers={"Idempotency-Key": f"upload-{collection}"},
        )
        assert answer.status_code == 202, answer.json
        return answer

    return upload


@pytest.fixture(scope="module")
def closed(tmp_path_factory, settings):
    """A service that knows who asks."""
    with running_app(tmp_path_factory.mktemp("closed"), **settings, access=AccessSettings()) as app:
        yield app


@pytest.fixture
def with_key(closed):
    """`with_key(scope)`: a client that has a key, and the key."""

    def with_key(scope):
        key, text = closed.extensions["rag.access"].stored.create(scope.name, Grant(frozenset({scope})))
        client = closed.test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
        return client, key

    return with_key


def _ended(client, answer):
    return files_of(client, answer.json["job"]["id"])


def _names(answer):
    return [each["name"] for each in answer.json["files"]]


def is_replayed(answer):
    return answer.headers.get("Idempotent-Replayed") == "true"


def test_the_names_of_a_users_uploads_go_and_a_repeat_uploads_nothing(closed, collection, upload, with_key, word):
    (ada, key), (admin, _) = with_key(Scope.WRITE), with_key(Scope.ADMIN)
    _ended(ada, upload(ada, collection))
    assert {"idempotency_keys", "job_files"} <= set(tables_with(closed, word))

    erase(admin, user=key.id)

    # The documents belong to their collection.
    assert {"idempotency_keys", "job_files"}.isdisjoint(tables_with(closed, word))
    again = upload(ada, collection)
    assert (is_replayed(again), _names(again)) == (True, [])


def test_what_a_user_uploads_while_they_are_erased_is_stored(collection, upload, with_key, monkeypatch):
    """It came after what was theirs was removed, and before the receipt."""
    (ada, key), (admin, _) = with_key(Scope.WRITE), with_key(Scope.ADMIN)
    clean, uploaded = StorageErasure.clean_engine, []

    def cleaning(storage, *, until):
        uploaded.append(upload(ada, collection))
        return clean(storage, until=until)

    with monkeypatch.context() as patch:
        patch.setattr(StorageErasure, "clean_engine", cleaning)
        erase(admin, user=key.id)
    assert [each["status"] for each in _ended(ada, uploaded[0])] == ["done", "done"]
    assert admin.get(f"/collections/{collection}").json["count"] == 2
    again = upload(ada, collection)
    assert (is_replayed(again), again.json) == (True, uploaded[0].json)


@pytest.mark.slow
def test_the_names_of_uploads_go_with_their_documents_when_their_job_is_gone(
    app, client, collection, upload, word, other
):
    first = upload(client, collection)
    document = next(each["document_id"] for each in _ended(client, first) if word in each["name"])
    catalog, job = app.extensions["rag.service"].catalog, first.json["job"]["id"]
    for gone in ("DELETE FROM job_files WHERE job_id = ?", "DELETE FROM jobs WHERE id = ?"):
        catalog.commit(lambda transaction, gone=gone: transaction.run(gone, (job,)))

    erase(client, collection=collection, document=document)

    check_gone(app, word)
    again = upload(client, collection)
    assert (is_replayed(again), _names(again)) == (True, [f"{other}name.md"])


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/api/rag/ingest", "/tools/rag_context_index"])
def test_a_repeat_stores_nothing_of_a_text_that_was_deleted_and_erased(app, client, folder, word, path):
    text = f"The plan of {word} is a secret."
    collection, body = {
        "/api/rag/ingest": ("rag-documents", {"source": "web", "path": "/a", "title": word, "text": text}),
        "/tools/rag_context_index": ("rag-context", {"content": text, "source": word, "contentType": "code"}),
    }[path]
    place = f"/collections/{collection}/documents"

    def ingest():
        return client.post(path, json=body, headers={"Idempotency-Key": f"{folder.name}{path}"}).json

    document = ingest()["documentId"]
    (chunk,) = client.post(f"{place}/search", json={"where": {"document_id": document}}).json["documents"]
    deleted = client.delete(place, json={"ids": [chunk["id"]]})
    assert deleted.status_code == 200, deleted.json
    erase(client, collection=collection, document=document)
    again = ingest()
    assert (again["documentId"], again.get("vectorIds", [])) == ("", [])
    assert client.get(f"{place}/{chunk['id']}").status_code == 404
    assert tables_with(app, word) == []


@pytest.mark.slow
@pytest.mark.parametrize("is_left", [False, True])
def test_the_ids_of_pieces_that_were_gone_before_the_erasure_go(app, client, collection, word, other, is_left):
    """Once replaced by fewer or deleted, nothing tells whose pieces they were: neither ids that are made of the
    document's nor others."""
    ids = {word: [chunk_id(word, 0), chunk_id(word, 700), f"{word}-2"], other: [chunk_id(other, 0)]}
    keys = {word: f"{collection}-erased", other: f"{collection}-stays"}

    def write(document):
        text = {"metadata": {"document_id": document}, "embedding": [1.0, 2.0]}
        made = ({"id": each, "text": f"The plan {each}.", **text} for each in ids[document])
        return add(client, collection, *made, key=keys[document]).json["ids"]

    for document in (word, other):
        assert write(document) == ids[document]
    gone = ids[word][1:] if is_left else ids[word]
    deleted = client.delete(f"/collections/{collection}/documents", json={"ids": gone})
    assert (deleted.status_code, deleted.json["count"]) == (200, len(gone))

    erase(client, collection=collection, document=word)

    assert (write(word), write(other)) == ([], ids[other])
    for each in ids[word]:
        check_gone(app, each)
