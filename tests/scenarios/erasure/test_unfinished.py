"""What else has the words of an erasure, and what is left of another one, does not keep it from its receipt."""

import os
import sys
import uuid
from pathlib import Path

import pytest

from schemas.access.callers import ANYBODY, acting_as
from schemas.contracts.watchers import WatcherReport
from tests.scenarios.erasure.conftest import add, asker, erase, left, send, store, upload
from tests.wrapper.audit.conftest import lines_of


def words_of(word):
    """Return the text of a stored piece."""
    return f"Piece 0 of {word}, with words of its own."


@pytest.fixture
def stray(folder):
    """A file that is nobody's."""
    file = folder / f"stray-{uuid.uuid4().hex}"
    yield file
    file.unlink(missing_ok=True)


@pytest.fixture
def asked(client, collection, word, other):
    """The erasure of twenty stored pieces."""
    store(client, collection, word, other)
    return {"collection": collection, "where": {"of": word}}


def upload_page(client, collection, other, name, hidden):
    """Store a page whose file has words that nobody finds, and return its id."""
    page = f"<html><body><!-- {hidden} --><p>The page {name} of {other}.</p></body></html>"
    return upload(client, collection, other, page, f"{other}{name}.html")


@pytest.mark.slow
def test_files_that_are_nobodys_are_told_until_they_are_gone_and_others_with_the_same_words_are_named(
    client, asked, folder, collection, word, other, jobs_wait
):
    same = [upload_page(client, f"{collection}-b", other, name, words_of(word)) for name in ("b", "c")]
    document = upload_page(client, f"{collection}-b", other, "a", "Other words.")
    (original,) = (folder / "originals").glob(f"*/{document}-*")
    jobs_wait()
    job = send(client, f"{collection}-b", other, words_of(word))
    no_text = os.path.join(os.fsencode(folder), b"backup-\xff.txt")
    for stray, place in (
        (original.with_name(original.name.replace(document, str(uuid.uuid4()))), "originals"),
        (original.with_name(f"{document}-{'0' * 64}"), "originals"),
        (folder / "originals" / str(uuid.uuid4()) / original.name, "originals"),
        (folder / "uploads" / job / "9", "uploads"),
        (Path(os.fsdecode(no_text)), "backup-\\xff.txt"),
    ):
        stray.parent.mkdir(exist_ok=True)
        stray.write_text(words_of(word))
        assert left(client, **asked) == {place: "still has words of them"}, stray
        stray.unlink()
    receipt = erase(client, **asked)
    named = [f"original of document '{each}' in collection '{collection}-b'" for each in same]
    assert (receipt["chunks"], sorted(receipt["also_in"])) == (20, sorted([*named, f"upload job '{job}'"]))


@pytest.mark.slow
def test_what_is_left_of_a_filter_is_told_to_the_same_one_and_to_its_documents_alone(
    app, client, asked, stray, collection, word, other, monkeypatch
):
    store(client, f"{collection}-b", f"{word}c", other)
    stray.write_text(words_of(word))
    first = {"collection": collection, "where": {"of": word, "title": f"{word}title"}}
    same = {**first, "where": {"$and": [{"title": f"{word}title"}, {"of": {"$eq": word}}]}, "all": True}
    storage, renewed = app.extensions["rag.layers"].erasure._storage, []

    def renew(name, *, until):
        renewed.append(name)
        return type(storage).renew_index(storage, name, until=until)

    monkeypatch.setattr(storage, "renew_index", renew)
    assert left(client, **first)

    assert erase(client, collection=f"{collection}-b", where={"of": f"{word}c"})["chunks"] == 20
    assert erase(client, collection=collection, where={"of": other, "title": {"$ne": "x"}}, all=True)["chunks"] == 20
    for told in (first, same, {"collection": collection, "document": f"{word}id3"}):
        assert left(client, **told) == {stray.name: "still has words of them"}
    assert renewed.count(collection) == 6  # once by each

    stray.unlink()
    assert erase(client, **same)["chunks"] == 20


@pytest.mark.slow
def test_files_that_cannot_be_searched_leave_the_erasure_unfinished(client, asked, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        assert [*left(client, **asked)] == ["files"]
    assert erase(client, **asked)["chunks"] == 20


@pytest.mark.slow
@pytest.mark.parametrize("still_unfinished", [True, False])
def test_what_was_stored_after_an_unfinished_erasure_stays(client, stray, collection, word, other, still_unfinished):
    words = {collection: word, f"{collection}-again": f"{word}c"}
    for name, each in words.items():
        store(client, name, each, other)
    stray.write_text("\n".join(words_of(each) for each in words.values()))
    asked = [{"collection": name, "document": f"{each}id0"} for name, each in words.items()]
    for each in asked:
        assert left(client, **each) == {stray.name: "still has words of them"}
    assert client.delete(f"/collections/{collection}-again").status_code == 200
    later = {"text": "What was stored later.", "embedding": [1.0, 2.0, 3.0, 4.0]}
    for name, each in words.items():
        add(client, name, {"id": f"{each}id0", **later})
    if not still_unfinished:
        stray.unlink()
    for _ in range(2):
        assert erase(client, collection=collection, document=f"{other}none")["chunks"] == 0
    for name, each in words.items():
        assert client.get(f"/collections/{name}/documents/{each}id0").json["text"] == later["text"]
    stray.unlink(missing_ok=True)
    erase(client, collection=collection, document=f"{other}none")


@pytest.mark.slow
def test_what_a_user_made_after_an_unfinished_erasure_stays(app, client, folder, stray, collection, word):
    layers, user = app.extensions["rag.layers"], asker(word)

    def report(watcher):
        told = WatcherReport("a", "watching", collection)
        layers.watchers.report(watcher, told, asker=user)

    with acting_as(ANYBODY):
        session = layers.notes.start("first", asker=user)
        layers.notes.note(words_of(word), session.id, asker=user)
    report(f"{word}-first")
    stray.write_text(words_of(word))
    assert left(client, user=user.owner)
    report(f"{word}-second")
    assert erase(client, user=asker("somebody-else").owner)["documents"] == 0
    watchers = [each["name"] for each in client.get("/api/watchers").json["watchers"]]
    assert [each for each in watchers if word in each] == [f"{word}-second"]
    (line,) = [each for each in lines_of(folder / "audit") if each.get("subject") == user.owner]
    assert (line["route"], line["status"], line["count"]) == ("/api/erase", 503, 1)
    stray.unlink()
    erase(client, user=user.owner)
