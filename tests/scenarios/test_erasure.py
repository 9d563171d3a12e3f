"""What is erased is in no file and no table any more, and nothing else is missing."""

import json
import uuid
from contextlib import contextmanager

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import ANYBODY, Scope, acting_as
from schemas.access.owners import Asker
from schemas.contracts.chat import ChatRequest, Message
from schemas.contracts.collect import CollectRequest
from schemas.contracts.jobs import Wanted
from schemas.contracts.watchers import FailedFile, WatcherReport
from schemas.settings import RetrievalSettings
from schemas.storage.erasure import ErasureRequest
from schemas.where import Equals
from tests.support.apps import models_of, running_app
from tests.support.commands import files_holding, run_command
from tests.support.live import eventually, live_service
from tests.wrapper.audit.conftest import lines_of

CANARY = "zqcanarya"
"""Marks everything that is to be erased, in every place; its end is not the end of an English word."""
OTHER = "zqstayingb"
"""Marks what stays."""
SETTINGS = RetrievalSettings(mcp_write=True, keep_originals=True, log_queries=True)
KINDS = ("sqlite", "postgresql")


@pytest.fixture(params=KINDS)
def service(request, tmp_path, models_up, processes):
    """`with service() as app` runs one service after the other on the same data."""
    settings = {"registry": models_of(models_up, topic="rule"), "retrieval": SETTINGS}
    models_up.meanings = {CANARY: [1, 0.1], OTHER: [0.1, 1]}
    if request.param == "sqlite":
        yield lambda: running_app(tmp_path / "data", **settings)
        return
    with request.getfixturevalue("postgres").catalogue() as url:
        yield lambda: running_app(tmp_path / "data", catalog_url=url, **settings)


def upload(client, collection, word):
    text = f"# About {word}\n\nThe plan of {word} is a secret that nobody else has to know.\n"
    given = {"collection": collection, "tags": f"{word}tag", "metadata": json.dumps({"author": f"{word}author"})}
    headers = {"X-Filename": f"{word}name.md", "Content-Type": "text/markdown", "Idempotency-Key": uuid.uuid4().hex}
    answer = client.post("/api/documents", query_string=given, data=text.encode(), headers=headers)
    assert answer.status_code == 202, answer.json
    place = f"/api/jobs/{answer.json['job']['id']}"
    eventually(lambda: client.get(place).json["status"] == "done")
    (file,) = client.get(place).json["files"]
    return file["document_id"]


def store(client, collection, *words):
    documents = [
        {
            "id": f"{word}id{number}",
            "text": f"Piece {number} of {word}, with words of its own.",
            "metadata": {"title": f"{word}title", "tags": [f"{word}tag"], "of": word},
            "embedding": [1.0 + number, *(ord(each) / 100 for each in word[-3:])],
        }
        for word in words
        for number in range(20)
    ]
    if client.get(f"/collections/{collection}").status_code == 404:
        assert client.post("/collections", json={"name": collection}).status_code == 201
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"documents": documents}
    assert client.post(f"/collections/{collection}/documents", json=body, headers=headers).status_code == 201


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


def files_with(app, word):
    return files_holding(app.extensions["rag.service"].settings.data_dir, word)


def tables_with(app, word):
    catalog = app.extensions["rag.service"].catalog.freely
    every = "SELECT name FROM sqlite_master WHERE type = 'table'"
    if catalog.kind != "sqlite":
        every = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    with catalog.read() as transaction:
        tables = [name for (name,) in transaction.rows(every)]
        return [name for name in tables if _holds(transaction, name, word)]


def _holds(transaction, table, word):
    return any(word in _readable(value) for row in transaction.rows(f"SELECT * FROM {table}") for value in row)


def _readable(value):
    if isinstance(value, bytes | memoryview):
        return bytes(value).replace(b"\0", b"").decode("latin-1").lower()
    return str(value).lower()


def check_that_the_others_are_there(client, collection):
    found = client.get(f"/collections/{collection}/documents?limit=100").json["documents"]
    assert found
    assert all(OTHER in each["id"] or OTHER in each["text"] for each in found)
    assert client.post(f"/collections/{collection}/text-search", json={"query": OTHER}).json["results"]
    (stored,) = client.get(f"/collections/{collection}/documents?limit=1&include=embedding").json["documents"]
    query = {"query_embedding": stored["embedding"], "top_k": 1}
    assert client.post(f"/collections/{collection}/query", json=query).json["results"][0]["id"] == stored["id"]


def test_an_uploaded_document_is_in_no_file_after_its_erasure(service, collection):
    with service() as app:
        client = app.test_client()
        document = upload(client, collection, CANARY)
        upload(client, collection, OTHER)
        ask(client, collection, CANARY)
        ask(client, collection, OTHER)
        assert tables_with(app, CANARY)
        assert files_with(app, CANARY)

        receipt = erase(client, collection=collection, document=document)

        assert (receipt["documents"], receipt["chunks"]) == (1, 1)
        assert receipt["also_in"] == []
        removed = {each["place"]: each["removed"] for each in receipt["files"]}
        assert (removed["originals"], removed["conversations"], removed["jobs and uploads"]) == (1, 1, 1)
        assert tables_with(app, CANARY) == []
        assert files_with(app, CANARY) == []
        check_that_the_others_are_there(client, collection)
        assert client.get(f"/api/chat/{OTHER}talk").status_code == 200
        assert client.get(f"/api/chat/{CANARY}talk").status_code == 404
    assert files_with(app, CANARY) == []
    assert files_with(app, OTHER)
    with service() as app:
        check_that_the_others_are_there(app.test_client(), collection)
        assert tables_with(app, CANARY) == []


def test_documents_that_match_are_in_no_file_after_their_erasure(service, collection):
    with service() as app:
        client = app.test_client()
        store(client, collection, CANARY, OTHER)
        changed = {"text": f"It is {CANARY} now."}
        assert client.patch(f"/collections/{collection}/documents/{CANARY}id3", json=changed).status_code == 200
        vector = _vector_of(client, collection, f"{CANARY}id0")

        receipt = erase(client, collection=collection, where={"of": CANARY})

        assert (receipt["documents"], receipt["chunks"]) == (20, 20)
        assert tables_with(app, CANARY) == []
        assert files_with(app, CANARY) == []
        check_that_the_others_are_there(client, collection)
        again = erase(client, collection=collection, where={"of": CANARY})
        assert (again["documents"], again["chunks"]) == (0, 0)
    folder = app.extensions["rag.service"].settings.data_dir
    assert files_with(app, CANARY) == []
    assert files_holding(folder, vector) == []


def _vector_of(client, collection, document_id):
    import numpy as np

    found = client.get(f"/collections/{collection}/documents/{document_id}?include=embedding").json
    return np.asarray(found["embedding"], dtype="<f4").tobytes()


def test_a_document_that_was_deleted_before_can_still_be_erased(service, collection):
    with service() as app:
        client = app.test_client()
        document = upload(client, collection, CANARY)
        upload(client, collection, OTHER)
        ask(client, collection, CANARY)
        assert client.delete(f"/api/documents/{document}?collection={collection}").status_code == 200

        receipt = erase(client, collection=collection, document=document)

        assert (receipt["documents"], receipt["chunks"]) == (0, 0)
        assert tables_with(app, CANARY) == []
    assert files_with(app, CANARY) == []


def test_what_belongs_to_a_user_is_in_no_file_after_its_erasure(service, collection):
    with service() as app:
        client = app.test_client()
        upload(client, collection, OTHER)
        ask(client, collection, OTHER)
        stored = app.extensions["rag.access"].stored
        key, _ = stored.create("ada", Grant(frozenset({Scope.WRITE, Scope.CHAT})))
        # With a key, everybody needs one.
        _, admin = stored.create("admin", Grant(frozenset({Scope.ADMIN})))
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {admin}"
        _live_as(app, collection, key.owner, CANARY)
        assert tables_with(app, CANARY)

        receipt = erase(client, user=key.id)

        removed = {each["place"]: each["removed"] for each in receipt["files"]}
        assert receipt["user"] == f"key:{key.owner}"
        assert (removed["conversations"], removed["sessions"], removed["watchers"]) == (1, 1, 1)
        assert (removed["topics"], removed["jobs and uploads"]) == (1, 1)
        assert _tables_of(app, f"key:{key.owner}") == []
        assert tables_with(app, CANARY) == []
        check_that_the_others_are_there(client, collection)
        assert app.extensions["rag.layers"].chat.conversation(f"{OTHER}talk", asker=Asker())
        assert stored.one(key.id).revoked_at is None
    assert files_with(app, CANARY) == []


def _live_as(app, collection, owner, word):
    """Leave something in every place that belongs to a user."""
    layers = app.extensions["rag.layers"]
    asker = Asker(f"key:{owner}")
    job = layers.uploads.begin()
    with acting_as(ANYBODY), job:
        session = layers.notes.start(f"{word}session", asker=asker)
        layers.notes.note(f"I am {word}.", session.id, asker=asker)
        layers.chat.answer(ChatRequest((Message("user", f"I am {word}."),)), asker=asker)
        layers.conversations.follow(f"{word}talk", CollectRequest(f"I am {word}.", "", "", ()), owner=asker.owner)
        report = WatcherReport("a", "watching", collection, "2026-01-01T00:00:00Z", failures=(FailedFile(word, word),))
        layers.watchers.report(f"{word}folder", report, asker=asker)
        job.take(f"{word}.md", "text/markdown", [f"I am {word}.".encode()])
        layers.job_runner.stop()
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


def test_an_erasure_that_was_killed_is_gone_on_with(service, collection):
    with service() as app:
        client = app.test_client()
        store(client, collection, CANARY, OTHER)
        erasing = app.extensions["rag.layers"].erasure.erasure
        request = ErasureRequest(collection=collection, where=Equals("of", CANARY))
        for broken_at in ("renew_index", "clean_engine", "rewrite_catalogue"):
            with _killed_at(erasing, broken_at), pytest.raises(KilledError), acting_as(ANYBODY):
                erasing.erase(request)
            assert client.get(f"/collections/{collection}/documents/{CANARY}id0").status_code == 404

        receipt = erase(client, collection=collection, where={"of": CANARY})

        assert (receipt["documents"], receipt["chunks"]) == (20, 20)
        check_that_the_others_are_there(client, collection)
    assert files_with(app, CANARY) == []


class KilledError(Exception):
    pass


@contextmanager
def _killed_at(erasing, step):
    """Let an erasure end at this step, as if its process were killed."""

    def die(*_, **__):
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(erasing._storage, step, die)
        yield


def test_a_document_that_a_waiting_upload_would_store_again_is_not_erased(service, collection):
    with service() as app:
        client = app.test_client()
        document = upload(client, collection, CANARY)
        app.extensions["rag.layers"].job_runner.stop()
        headers = {"X-Filename": f"{CANARY}name.md", "Content-Type": "text/markdown"}
        sent = client.post("/api/documents", query_string={"collection": collection}, data=b"# A\n\nb", headers=headers)

        refused = client.post("/api/erase", json={"collection": collection, "document": document})

        assert (refused.status_code, refused.json["code"]) == (409, "upload_waiting")
        assert refused.json["details"]["job"] == sent.json["job"]["id"]
        assert client.get(f"/api/documents/{document}?collection={collection}").status_code == 200


def test_a_receipt_names_what_else_has_the_same_words(service, collection):
    with service() as app:
        client = app.test_client()
        store(client, collection, CANARY)
        store(client, f"{collection}-b", CANARY, OTHER)
        refused = client.post("/api/erase", json={"collection": collection, "where": {"of": CANARY}})
        assert (refused.status_code, refused.json["code"]) == (400, "matches_everything")
        receipt = erase(client, collection=collection, where={"of": CANARY}, all=True)
        assert receipt["chunks"] == 20
        assert receipt["also_in"] == [f"collection '{collection}-b'"]


@pytest.mark.parametrize("service", ["sqlite"], indirect=True)
def test_a_read_that_keeps_the_old_state_is_told(service, collection):
    with service() as app:
        client = app.test_client()
        store(client, collection, CANARY, OTHER)
        erasing = app.extensions["rag.layers"].erasure.erasure
        erasing._limit_seconds = 3.0
        with app.extensions["rag.service"].catalog.read() as transaction:
            transaction.rows("SELECT 1 FROM documents")
            left = client.post("/api/erase", json={"collection": collection, "where": {"of": CANARY}})
        assert (left.status_code, left.json["code"]) == (503, "erasure_unfinished")
        assert list(left.json["details"]["left"]) == ["catalogue"]
        erasing._limit_seconds = 60.0
        assert erase(client, collection=collection, where={"of": CANARY})["chunks"] == 20
        assert files_with(app, CANARY) == []


def test_the_command_erases_beside_two_workers_and_without_a_service(tmp_path, processes):
    with live_service(tmp_path, workers=2, write_wait_seconds=20) as service, service.session() as session:
        for name, words in (("alpha", (CANARY, OTHER)), ("beta", (f"{CANARY}x", OTHER))):
            made = session.post(f"{service.url}/collections", json={"name": name})
            assert made.status_code == 201
            documents = [
                {"id": f"{word}{number}", "text": f"Piece {number} of {word}.", "metadata": {"of": word}}
                | {"embedding": [1.0 + number, float(len(word))]}
                for word in words
                for number in range(30)
            ]
            added = session.post(f"{service.url}/collections/{name}/documents", json={"documents": documents})
            assert added.status_code == 201
        for _ in range(20):  # both workers hold what they are asked for
            query = {"query_embedding": [1.0, float(len(CANARY))], "top_k": 5}
            assert session.post(f"{service.url}/collections/alpha/query", json=query).json()["results"]

        erased = run_command(
            *("erase", "--collection", "alpha", "--where", json.dumps({"of": CANARY}), "--url", service.url)
        )

        assert erased.returncode == 0, erased.stderr
        assert "30 documents (30 stored pieces) of 'alpha'" in erased.stdout
        for _ in range(20):
            assert CANARY not in session.post(f"{service.url}/collections/alpha/query", json=query).text
            words = {"query": CANARY}
            assert not session.post(f"{service.url}/collections/alpha/text-search", json=words).json()["results"]
    data_dir = service.data_dir
    # Without a service: the directory's own, and what is not there is no receipt.
    erased = run_command("erase", "--collection", "beta", "--document", f"{CANARY}x3", "--json", data_dir=data_dir)
    assert erased.returncode == 0, erased.stderr
    assert json.loads(erased.stdout)["receipt"]["chunks"] == 1
    missing = run_command("erase", "--collection", "gamma", "--document", "a", data_dir=data_dir)
    assert (missing.returncode, missing.stdout) == (2, "")
    left = run_command(
        *("erase", "--collection", "beta", "--where", json.dumps({"of": f"{CANARY}x"})), data_dir=data_dir
    )
    assert left.returncode == 0, left.stderr
    assert files_holding(data_dir, CANARY) == []
    recorded = [each for each in lines_of(data_dir / "audit") if each["route"] == "/api/erase"]
    who = [(each["key_id"], each["address"]) for each in recorded]
    assert who == [("open", "127.0.0.1"), (None, None), (None, None), (None, None)]
    assert [(each["collection"], each["count"], each["status"]) for each in recorded] == [
        ("alpha", 30, 200),
        ("beta", 1, 200),
        ("gamma", None, 404),
        ("beta", 29, 200),
    ]
