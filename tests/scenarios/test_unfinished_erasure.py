"""What else has the words of an erasure, and what is left of another one, does not keep it from its receipt."""

import os
import sys
import uuid

import pytest

from schemas.access.callers import ANYBODY, acting_as
from schemas.access.owners import USER_OWNER, Asker
from schemas.contracts.watchers import WatcherReport
from tests.scenarios.test_erasure import CANARY, OTHER, SETTINGS, erase, store
from tests.support.apps import models_of, running_app
from tests.support.live import eventually
from tests.wrapper.audit.conftest import lines_of
from wrapper.backups.making import only_backup, opened_maker
from wrapper.backups.manifest import Reason
from wrapper.backups.places import KEPT_FOLDER
from wrapper.erasing import kept_backups


@pytest.fixture
def app(tmp_path, models_up, processes):
    with running_app(tmp_path / "data", registry=models_of(models_up, topic="rule"), retrieval=SETTINGS) as app:
        yield app


@pytest.fixture
def client(app):
    return app.test_client()


def wait_in_line(client, collection, name, words):
    headers = {"X-Filename": name, "Content-Type": "text/markdown"}
    sent = client.post("/api/documents", query_string={"collection": collection}, data=words.encode(), headers=headers)
    assert sent.status_code == 202, sent.json
    return f"upload job '{sent.json['job']['id']}'"


def test_an_upload_that_waits_with_the_same_words_is_named(app, client, collection):
    store(client, collection, CANARY, OTHER)
    app.extensions["rag.layers"].job_runner.stop()
    words = "".join(f"Piece {number} of {CANARY}, with words of its own.\n\n" for number in range(20))
    job = wait_in_line(client, f"{collection}-b", f"{OTHER}.md", words)
    receipt = erase(client, collection=collection, where={"of": CANARY})
    assert (receipt["chunks"], receipt["also_in"]) == (20, [job])


def upload_page(client, collection, name, hidden):
    """Store a page whose file has words that nobody finds, and return its id."""
    page = f"<html><body><!-- {hidden} --><p>The page {name}.</p></body></html>"
    headers = {"X-Filename": name, "Content-Type": "text/html"}
    sent = client.post("/api/documents", query_string={"collection": collection}, data=page.encode(), headers=headers)
    place = f"/api/jobs/{sent.json['job']['id']}"
    eventually(lambda: client.get(place).json["status"] == "done")
    (file,) = client.get(place).json["files"]
    return file["document_id"]


def test_originals_of_documents_that_stay_are_named_when_they_have_the_same_words(app, client, collection):
    store(client, collection, CANARY, OTHER)
    words = f"Piece 0 of {CANARY}, with words of its own."
    documents = [upload_page(client, f"{collection}-b", f"{name}.html", words) for name in ("a", "b")]
    upload_page(client, f"{collection}-b", "c.html", "Other words.")
    receipt = erase(client, collection=collection, where={"of": CANARY})
    named = [f"original of document '{each}' in collection '{collection}-b'" for each in documents]
    assert (receipt["chunks"], sorted(receipt["also_in"])) == (20, sorted(named))
    assert not (app.extensions["rag.service"].settings.data_dir / "erasures-under-way").exists()


@pytest.mark.parametrize("stray", ["another document", "another content", "another collection"])
def test_originals_of_no_stored_document_are_left(app, client, collection, stray):
    store(client, collection, CANARY, OTHER)
    document = upload_page(client, f"{collection}-b", "a.html", "Other words.")
    folder = app.extensions["rag.service"].settings.data_dir / "originals"
    (original,) = folder.glob(f"*/{document}-*")
    if stray == "another document":
        file = original.with_name(original.name.replace(document, str(uuid.uuid4())))
    elif stray == "another content":
        file = original.with_name(f"{document}-{'0' * 64}")
    else:
        file = folder / str(uuid.uuid4()) / original.name
        file.parent.mkdir()
    file.write_text(f"Piece 0 of {CANARY}, with words of its own.")
    body = {"collection": collection, "where": {"of": CANARY}}
    left = client.post("/api/erase", json=body)
    assert (left.status_code, left.json["details"]["left"]) == (503, {"originals": "still has words of them"})
    file.unlink()
    assert erase(client, **body)["also_in"] == []


def test_a_file_below_uploads_that_no_job_has_is_told(app, client, collection):
    store(client, collection, CANARY, OTHER)
    app.extensions["rag.layers"].job_runner.stop()
    wait_in_line(client, f"{collection}-b", f"{OTHER}.md", f"Piece 0 of {CANARY}, with words of its own.")
    folder = app.extensions["rag.service"].settings.data_dir
    (waiting,) = (folder / "uploads").glob("*/0")
    (waiting.parent / "9").write_bytes(waiting.read_bytes())
    left = client.post("/api/erase", json={"collection": collection, "where": {"of": CANARY}})
    assert (left.status_code, left.json["details"]["left"]) == (503, {"uploads": "still has words of them"})


def test_what_is_left_of_one_erasure_does_not_make_another_fail(app, client, collection):
    for name in (collection, f"{collection}-b"):
        store(client, name, CANARY if name == collection else f"{CANARY}c", OTHER)
    folder = app.extensions["rag.service"].settings.data_dir
    (folder / "stray").write_text(f"Piece 0 of {CANARY}, with words of its own.")
    first = {"collection": collection, "where": {"of": CANARY}}
    for _ in range(2):
        left = client.post("/api/erase", json=first)
        assert (left.status_code, left.json["details"]["left"]) == (503, {"stray": "still has words of them"})

    assert erase(client, collection=f"{collection}-b", where={"of": f"{CANARY}c"})["chunks"] == 20
    assert erase(client, collection=collection, document=f"{OTHER}id0")["chunks"] == 1
    assert client.post("/api/erase", json=first).status_code == 503

    (folder / "stray").unlink()
    assert erase(client, **first)["chunks"] == 20
    assert not (folder / "erasures-under-way").exists()


def test_what_is_left_of_a_filter_is_told_to_the_same_one_and_to_its_documents_alone(
    app, client, collection, monkeypatch
):
    store(client, collection, CANARY, OTHER)
    stray = app.extensions["rag.service"].settings.data_dir / "stray"
    stray.write_text(f"Piece 0 of {CANARY}, with words of its own.")
    first = {"collection": collection, "where": {"of": CANARY, "title": f"{CANARY}title"}}
    same = {**first, "where": {"$and": [{"title": f"{CANARY}title"}, {"of": {"$eq": CANARY}}]}, "all": True}
    storage, renewed = app.extensions["rag.layers"].erasure.erasure._storage, []

    def renew(name, *, until):
        renewed.append(name)
        return type(storage).renew_index(storage, name, until=until)

    monkeypatch.setattr(storage, "renew_index", renew)
    assert client.post("/api/erase", json=first).status_code == 503

    assert erase(client, collection=collection, where={"of": "nothing"})["chunks"] == 0
    assert erase(client, collection=collection, where={"of": OTHER, "title": {"$ne": "x"}}, all=True)["chunks"] == 20
    assert erase(client, collection=collection, document=f"{OTHER}id0")["chunks"] == 0
    for told in (first, same, {"collection": collection, "document": f"{CANARY}id3"}):
        left = client.post("/api/erase", json=told)
        assert (left.status_code, left.json["details"]["left"]) == (503, {"stray": "still has words of them"})
    assert renewed == [collection] * 7  # once by each

    stray.unlink()
    assert erase(client, **same)["chunks"] == 20


def test_files_that_cannot_be_searched_leave_the_erasure_unfinished(app, client, collection, monkeypatch):
    store(client, collection, CANARY, OTHER)
    body = {"collection": collection, "where": {"of": CANARY}}
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        left = client.post("/api/erase", json=body)
    assert (left.status_code, [*left.json["details"]["left"]]) == (503, ["files"])
    assert erase(client, **body)["chunks"] == 20


def leave_unfinished(app, client, collection, word):
    """Erase a document whose words lie in a stray file, too, which is returned."""
    stray = app.extensions["rag.service"].settings.data_dir / f"stray-{word}"
    stray.write_text(f"Piece 0 of {word}, with words of its own.")
    body = {"collection": collection, "document": f"{word}id0"}
    assert client.post("/api/erase", json=body).status_code == 503
    return stray


def add(client, collection, document_id, text):
    body = {"documents": [{"id": document_id, "text": text, "embedding": [1.0, 2.0, 3.0, 4.0]}]}
    assert client.post(f"/collections/{collection}/documents", json=body).status_code == 201


@pytest.mark.parametrize("still_unfinished", [True, False])
def test_what_was_stored_after_an_unfinished_erasure_stays(app, client, collection, still_unfinished):
    words = {collection: CANARY, f"{collection}-again": f"{CANARY}c"}
    for name, word in words.items():
        store(client, name, word, OTHER)
    strays = [leave_unfinished(app, client, name, word) for name, word in words.items()]
    assert client.delete(f"/collections/{collection}-again").status_code == 200
    assert client.post("/collections", json={"name": f"{collection}-again"}).status_code == 201
    for name, word in words.items():
        add(client, name, f"{word}id0", "What was stored later.")
    if not still_unfinished:
        for stray in strays:
            stray.unlink()
    for _ in range(2):
        assert erase(client, collection=collection, document=f"{OTHER}none")["chunks"] == 0
    for name, word in words.items():
        assert client.get(f"/collections/{name}/documents/{word}id0").json["text"] == "What was stored later."


def test_what_a_user_made_after_an_unfinished_erasure_stays(app, client, collection):
    layers = app.extensions["rag.layers"]
    asker = Asker(f"{USER_OWNER}{CANARY}")

    def report(watcher):
        told = WatcherReport("a", "watching", collection, "2026-01-01T00:00:00Z")
        layers.watchers.report(watcher, told, asker=asker)

    with acting_as(ANYBODY):
        session = layers.notes.start("first", asker=asker)
        layers.notes.note(f"Piece 0 of {CANARY}, with words of its own.", session.id, asker=asker)
    report("first")
    folder = app.extensions["rag.service"].settings.data_dir
    (folder / "stray").write_text(f"Piece 0 of {CANARY}, with words of its own.")
    assert client.post("/api/erase", json={"user": asker.owner}).status_code == 503
    report("second")
    assert erase(client, user=f"{USER_OWNER}somebody-else")["documents"] == 0
    assert [each["name"] for each in client.get("/api/watchers").json["watchers"]] == ["second"]

    line, *_ = [each for each in lines_of(folder / "audit") if each["route"] == "/api/erase"]
    assert (line["status"], line["subject"], line["count"]) == (503, asker.owner, 1)


def test_the_receipt_tells_of_backups_from_before(app, client, collection, monkeypatch):
    store(client, collection, CANARY, OTHER)
    settings = app.extensions["rag.service"].settings
    kept = settings.data_dir / KEPT_FOLDER
    kept.mkdir()
    with opened_maker(settings, None) as maker:
        maker.make(maker.new_target(kept, Reason.MIGRATION), Reason.MIGRATION, whole=False)
    monkeypatch.setattr(kept_backups, "WAIT_SECONDS", 0.0)
    with only_backup(settings.data_dir):
        refused = client.post("/api/erase", json={"collection": collection, "where": {"of": CANARY}})
    assert (refused.status_code, refused.json["code"]) == (409, "backup_under_way")
    assert client.get(f"/collections/{collection}/documents/{CANARY}id0").status_code == 200
    receipt = erase(client, collection=collection, where={"of": CANARY})
    (line,) = [each for each in receipt["files"] if each["place"] == "backups"]
    assert line["done"].startswith("not erased: 1 from before")


def test_a_file_whose_name_is_no_text_is_told(app, client, collection):
    store(client, collection, CANARY, OTHER)
    folder = app.extensions["rag.service"].settings.data_dir
    stray = os.path.join(os.fsencode(folder), b"backup-\xff.txt")
    with open(stray, "w") as file:
        file.write(f"Piece 0 of {CANARY}, with words of its own.")
    body = {"collection": collection, "where": {"of": CANARY}}
    left = client.post("/api/erase", json=body)
    assert left.status_code == 503
    assert left.json["details"]["left"] == {"backup-\\xff.txt": "still has words of them"}
    assert erase(client, collection=collection, document=f"{OTHER}id0")["chunks"] == 1
    os.unlink(stray)
    assert erase(client, **body)["chunks"] == 20
