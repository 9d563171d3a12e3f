"""What idempotency keys keep tells nothing of what is erased, and repeats still do nothing."""

import json
from io import BytesIO

import pytest

from retrieval.ingest.identity import chunk_id
from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.settings import AccessSettings
from tests.scenarios.test_erasure import CANARY, OTHER, SETTINGS, erase, files_with, tables_with
from tests.support.apps import HeldBody, models_of, running_app
from tests.support.live import eventually
from wrapper.erasing.storage_erasure import StorageErasure
from wrapper.web import line_streams


@pytest.fixture
def app(tmp_path, models_up, processes):
    with running_app(tmp_path / "data", registry=models_of(models_up), retrieval=SETTINGS) as app:
        yield app


@pytest.fixture
def client(app):
    return app.test_client()


def upload(client, collection):
    """Upload two files with the one key of the collection."""
    files = [(f"# About {word}\n\nThe plan of {word} is secret.\n", f"{word}name.md") for word in (CANARY, OTHER)]
    answer = client.post(
        "/api/documents",
        query_string={"collection": collection},
        data={"file": [(BytesIO(text.encode()), name) for text, name in files]},
        headers={"Idempotency-Key": f"upload-{collection}"},
    )
    assert answer.status_code == 202, answer.json
    return answer


def _ended(client, answer):
    place = f"/api/jobs/{answer.json['job']['id']}"
    eventually(lambda: client.get(place).json["status"] == "done")
    return client.get(place).json["files"]


def _names(answer):
    return [each["name"] for each in answer.json["files"]]


def test_the_names_of_a_users_uploads_go_and_a_repeat_uploads_nothing(tmp_path, models_up, processes, collection):
    closed = {"registry": models_of(models_up), "retrieval": SETTINGS, "access": AccessSettings()}
    with running_app(tmp_path / "data", **closed) as app:
        stored = app.extensions["rag.access"].stored
        key, text = stored.create("ada", Grant(frozenset({Scope.WRITE})))
        _, admin_text = stored.create("admin", Grant(frozenset({Scope.ADMIN})))
        client, admin = app.test_client(), app.test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
        admin.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {admin_text}"
        _ended(client, upload(client, collection))
        assert {"idempotency_keys", "job_files"} <= set(tables_with(app, CANARY))

        erase(admin, user=key.id)

        # The documents belong to their collection.
        assert {"idempotency_keys", "job_files"}.isdisjoint(tables_with(app, CANARY))
        again = upload(client, collection)
        assert (again.headers["Idempotent-Replayed"], _names(again)) == ("true", [])


def test_the_names_of_uploads_go_with_their_documents_when_their_job_is_gone(app, client, collection):
    first = upload(client, collection)
    document = next(each["document_id"] for each in _ended(client, first) if CANARY in each["name"])
    for table in ("jobs", "job_files"):
        catalog = app.extensions["rag.service"].catalog
        catalog.commit(lambda transaction, table=table: transaction.run(f"DELETE FROM {table}"))

    erase(client, collection=collection, document=document)

    assert tables_with(app, CANARY) == []
    assert files_with(app, CANARY) == []
    again = upload(client, collection)
    assert (again.headers["Idempotent-Replayed"], _names(again)) == ("true", [f"{OTHER}name.md"])


def test_an_erasure_changes_no_outcomes_of_other_collections(client, collection):
    names = (collection, f"{collection}-b")

    def write(name):
        documents = [{"id": each, "text": name, "embedding": [1.0, 2.0]} for each in ("doc-1", name, "queued")]
        headers = {"Idempotency-Key": f"write-{name}"}
        return client.post(f"/collections/{name}/documents", json={"documents": documents}, headers=headers)

    for name in names:
        assert client.post("/collections", json={"name": name}).status_code == 201
        assert write(name).status_code == 201
    first = upload(client, f"{collection}-c")
    _ended(client, first)

    for document in ("doc-1", "queued", collection):
        erase(client, collection=collection, document=document)

    assert write(collection).json["ids"] == []
    assert client.get(f"/collections/{collection}").json["count"] == 0
    assert write(names[1]).json["ids"] == ["doc-1", names[1], "queued"]
    again = upload(client, f"{collection}-c")
    assert (again.headers["Idempotent-Replayed"], again.json) == ("true", first.json)


def test_an_ingestion_whose_document_is_erased_stores_nothing_when_it_is_repeated(app, client):
    asked = {"source": "web", "path": f"/{CANARY}", "title": "Plan", "text": f"The plan of {CANARY} is a secret."}

    def ingest():
        return client.post("/api/rag/ingest", json=asked, headers={"Idempotency-Key": "ingest"})

    document = ingest().json["documentId"]
    erase(client, collection="rag-documents", document=document, all=True)
    again = ingest()
    assert (again.status_code, again.json["documentId"]) == (200, "")
    assert tables_with(app, CANARY) == []


@pytest.mark.parametrize("is_left", [False, True])
def test_the_ids_of_pieces_that_were_gone_before_the_erasure_go(app, client, collection, is_left):
    """Once replaced by fewer or deleted, nothing tells whose pieces they were: neither ids that are made of the
    document's nor others."""
    ids = {CANARY: [chunk_id(CANARY, 0), chunk_id(CANARY, 700), f"{CANARY}-2"], OTHER: [chunk_id(OTHER, 0)]}

    def write(document, key, number):
        made = [
            {"id": each, "text": f"The plan {each}.", "metadata": {"document_id": document}, "embedding": [1.0, 2.0]}
            for each in ids[document][:number]
        ]
        headers = {"Idempotency-Key": key}
        return client.post(f"/collections/{collection}/documents", json={"documents": made}, headers=headers)

    assert client.post("/collections", json={"name": collection}).status_code == 201
    for document, number in ((CANARY, 3), (OTHER, 1)):
        assert write(document, document, number).json["ids"] == ids[document]
    gone = ids[CANARY][1:] if is_left else ids[CANARY]
    deleted = client.delete(f"/collections/{collection}/documents", json={"ids": gone})
    assert (deleted.status_code, deleted.json["count"]) == (200, len(gone))

    erase(client, collection=collection, document=CANARY)

    assert [write(*given).json["ids"] for given in ((CANARY, CANARY, 3), (OTHER, OTHER, 1))] == [[], ids[OTHER]]
    for each in ids[CANARY]:
        assert (tables_with(app, each), files_with(app, each)) == ([], [])


def test_the_ids_of_pieces_of_an_indexed_text_go_when_it_was_deleted_before(app, client):
    asked = {
        "content": f"The plan of {CANARY}.",
        "source": "chat",
        "contentType": "code",
        "sessionId": "a",
        "agent": "b",
    }

    def index():
        return client.post("/tools/rag_context_index", json=asked, headers={"Idempotency-Key": "index"}).json

    first = index()
    place = f"/collections/rag-context/documents/{first['vectorIds'][0]}"
    assert client.get(place).status_code == 200
    deleted = client.delete("/collections/rag-context/documents", json={"ids": first["vectorIds"]})
    assert deleted.status_code == 200, deleted.json
    erase(client, collection="rag-context", document=first["documentId"])
    again = index()
    assert (again["vectorIds"], again["documentId"], again["chunksIndexed"]) == ([], "", 0)
    assert client.get(place).status_code == 404


def test_what_a_user_uploads_while_they_are_erased_is_stored(app, client, collection, monkeypatch):
    """It came after what was theirs was removed, and before the receipt."""
    clean, uploaded = StorageErasure.clean_engine, []
    stored = app.extensions["rag.access"].stored
    key, text = stored.create("ada", Grant(frozenset({Scope.WRITE})))
    ada = app.test_client()
    ada.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"

    def cleaning(storage, *, until):
        uploaded.append(upload(ada, collection))
        return clean(storage, until=until)

    monkeypatch.setattr(StorageErasure, "clean_engine", cleaning)
    erase(client, user=key.id)
    assert [each["status"] for each in _ended(ada, uploaded[0])] == ["done", "done"]
    assert client.get(f"/collections/{collection}").json["count"] == 2
    again = upload(ada, collection)
    assert (again.headers["Idempotent-Replayed"], again.json) == ("true", uploaded[0].json)


def test_the_outcome_of_a_stream_names_none_of_its_documents_when_one_was_erased_meanwhile(
    app, client, collection, monkeypatch
):
    monkeypatch.setattr(line_streams, "LINES_PER_TRANSACTION", 5)
    assert client.post("/collections", json={"name": collection}).status_code == 201
    ids = [f"{CANARY if number == 0 else OTHER}{number}" for number in range(10)]
    lines = [
        json.dumps({"id": each, "text": f"The plan {each}.", "embedding": [1.0, 2.0]}).encode() + b"\n" for each in ids
    ]

    def send(then=lambda: None):
        return client.post(
            f"/collections/{collection}/documents",
            environ_overrides=HeldBody(lines, then).environ,
            content_type="application/x-ndjson",
            headers={"Idempotency-Key": "stream"},
        )

    first = send(lambda: erase(app.test_client(), collection=collection, document=ids[0]))
    assert (first.status_code, first.json["count"], first.json["ids"]) == (201, len(ids), ids)
    again = send()
    assert (again.headers["Idempotent-Replayed"], again.json["count"], "ids" in again.json) == ("true", len(ids), False)
    assert client.get(f"/collections/{collection}").json["count"] == len(ids) - 1
    assert tables_with(app, CANARY) == []
    assert files_with(app, CANARY) == []


def test_the_outcome_of_a_batch_names_no_document_when_one_was_erased_meanwhile(
    app, client, collection, models_up, monkeypatch
):
    """Its warnings repeat names and headings."""
    metadata = {"source": "Core Rules", "doc_type": "core-rules", "last_update_date": "2025-10-02"}
    part = f"### Part\n\n{'word ' * 20_000}\n\n"
    batch = {
        "collection": collection,
        "documents": [
            {"filename": f"{CANARY}.md", "content": f"## About {CANARY}\n\n{part * 2}", "metadata": metadata},
            {"filename": f"{OTHER}.md", "content": f"## About {OTHER}\n\nThe plan.", "metadata": metadata},
        ],
    }
    usual, receipts = models_up.routes["/v1/embeddings"], []

    def answer(body):
        if OTHER in str(body) and not receipts:
            where = {"doc_type": "core-rules"}
            receipts.append(erase(app.test_client(), collection=collection, where=where, all=True))
        return usual(body)

    def send():
        return client.post("/api/rag/documents:batch", json=batch, headers={"Idempotency-Key": "batch"})

    monkeypatch.setitem(models_up.routes, "/v1/embeddings", answer)
    first = send()
    assert (first.status_code, CANARY in first.text, len(receipts)) == (200, True, 1)
    again = send()
    assert (again.headers["Idempotent-Replayed"], again.json["warnings"]) == ("true", [])
    assert tables_with(app, CANARY) == []
    assert files_with(app, CANARY) == []
