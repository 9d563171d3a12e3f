"""`/v1/vector_stores/{id}/files` and `/file_batches` as OpenAI's clients ask them, without those clients."""

import io
import json
import uuid

import pytest

from retrieval.jobs.stored_jobs import StoredJobs
from schemas.access.owners import Asker
from schemas.contracts.jobs import SpooledFile, Wanted
from tests.support.live import eventually

BACKUPS, COFFEE = "# Backups\n\nThey are kept for thirty days.", "The coffee machine is cleaned every Friday."


@pytest.fixture
def keep(client):
    def keep(name, content):
        form = {"purpose": "assistants", "file": (io.BytesIO(content.encode()), name)}
        return client.post("/v1/files", data=form).json["id"]

    return keep


@pytest.fixture
def store(client):
    """The path of a new store."""
    place = f"/v1/vector_stores/{client.post('/v1/vector_stores', json={}).json['id']}"
    yield place
    client.delete(place)


@pytest.fixture
def batch(client, store, settled):
    """`batch(ids)`: a batch of files of the store, once it is settled."""

    def make(ids):
        made = client.post(f"{store}/file_batches", json={"file_ids": ids}).json
        return settled(f"{store}/file_batches/{made['id']}")

    return make


@pytest.fixture
def settled(client):
    """`settled(path)`: what a file or batch is once it is not in progress."""

    def wait(path):
        def is_settled():
            answer = client.get(path)
            assert (answer.json["status"] == "in_progress") == ("openai-poll-after-ms" in answer.headers)
            return answer.json["status"] != "in_progress"

        eventually(is_settled, complaint=lambda: client.get(path).text)
        return client.get(path).json

    return wait


@pytest.fixture
def attach(client, store, settled):
    """`attach(file, …)`: a file of the store, once it is settled."""

    def attach(file_id, **fields):
        answer = client.post(f"{store}/files", json={"file_id": file_id, **fields})
        assert answer.status_code == 200, answer.text
        assert answer.json["id"] == file_id
        return settled(f"{store}/files/{file_id}")

    return attach


def found(client, store, query, key, value):
    filters = {"type": "eq", "key": key, "value": value}
    options = {"score_threshold": 0}
    answer = client.post(f"{store}/search", json={"query": query, "filters": filters, "ranking_options": options})
    return [each["file_id"] for each in answer.json["data"]]


@pytest.mark.slow
def test_an_attached_file_is_a_document_that_every_interface_knows(client, keep, store, attach):
    file = keep("ops/backups.md", BACKUPS)
    attributes = {"lang": "en", "floor": 2, "open": True, "part": 0.5, "large": 2**64 - 1, "title": "Mine", "tags": "a"}
    attributes |= {"file_id": "f", "created_at": 7, "attributes.title": "odd", "language": 5}
    attributes |= {"#id": "no id", "#document": "no text", "$and": "no operator", "chroma:document": "nor this"}
    stored = attach(file, attributes=attributes)
    assert (stored["status"], stored["attributes"], stored["usage_bytes"]) == ("completed", attributes, len(BACKUPS))
    assert stored["last_error"] is None
    collection = client.get(store).json["collection"]
    [document] = client.get(f"/api/documents?collection={collection}").json["documents"]
    assert (document["source"], document["title"]) == (f"{file}/ops/backups.md", "Backups")
    assert client.get(f"{store}/files/{file}/content").json["data"] == [{"type": "text", "text": BACKUPS}]
    for name, value in attributes.items():
        assert found(client, store, "backups", name, value) == [file]
    for name, value, is_found in (("$title", "Backups", True), ("title", "Backups", False), ("kind", "markdown", True)):
        assert found(client, store, "backups", name, value) == [file] * is_found
    both = {"where": json.dumps({"title": "Backups", "attributes.title": "Mine"})}
    assert client.get(f"/collections/{collection}/documents/count", query_string=both).json["count"] == 1
    [hit] = client.post(f"{store}/search", json={"query": "how long are backups kept"}).json["data"]
    assert (hit["file_id"], hit["filename"], hit["attributes"]) == (file, "backups.md", attributes)


@pytest.mark.slow
def test_attributes_are_replaced_and_stay_so_when_the_file_is_stored_anew(client, keep, store, attach):
    file = keep("a.md", BACKUPS)
    attach(file, attributes={"lang": "en", "old": 1, "kind": "k"})
    changed = client.post(f"{store}/files/{file}", json={"attributes": {"lang": "de", "language": "de"}}).json
    assert changed["attributes"] == {"lang": "de", "language": "de"}
    assert found(client, store, "backups", "language", "de") == [file]
    assert (found(client, store, "backups", "lang", "de"), found(client, store, "backups", "old", 1)) == ([file], [])
    assert attach(file, attributes={"lang": "en", "old": 1})["attributes"] == {"lang": "en", "old": 1}
    assert client.get(store).json["file_counts"]["total"] == 1


@pytest.mark.slow
def test_windows_are_as_long_as_asked_and_as_the_model_reads(client, keep, attach):
    text = " ".join(f"Sentence {number} is about the machine." for number in range(200))
    file = keep("long.txt", text)
    static = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 50}}
    told = attach(file, chunking_strategy=static)["chunking_strategy"]["static"]
    assert told == {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 25}
    static["static"]["max_chunk_size_tokens"] = 4_096
    assert attach(file, chunking_strategy=static)["chunking_strategy"]["static"]["max_chunk_size_tokens"] == 256
    assert attach(file, chunking_strategy={"type": "auto"})["chunking_strategy"] == {"type": "other"}


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [("a.exe", "MZ", "unsupported_file"), ("a.pdf", "no PDF", "invalid_file"), ("a.md", " \n", "invalid_file")],
)
def test_what_cannot_be_read_has_failed_and_says_why(client, keep, store, attach, name, content, code):
    file = keep(name, content)
    failed = attach(file)
    assert (failed["status"], failed["last_error"]["code"]) == ("failed", code)
    assert failed["last_error"]["message"].startswith("The file ")
    assert [each["id"] for each in client.get(f"{store}/files?filter=failed").json["data"]] == [file]
    assert client.get(f"{store}/files?filter=completed").json["data"] == []
    assert client.get(f"{store}/files/{file}/content").json["data"] == []
    counts = client.get(store).json["file_counts"]
    assert (counts["failed"], counts["total"]) == (1, 1)
    assert client.post(f"{store}/files/{file}", json={"attributes": {}}).json["error"]["code"] == "file_not_stored"
    assert client.delete(f"{store}/files/{file}").status_code == 200
    assert client.get(f"{store}/files").json["data"] == []


def test_cancelling_leaves_a_file_that_is_stored_already_as_it_was(app, client, keep, store, attach):
    file_id, other_id = keep("a.md", BACKUPS), keep("b.md", COFFEE)
    before = attach(file_id, attributes={"v": 1})
    name = client.get(store).json["collection"]
    collection_id = client.get(f"/collections/{name}").json["id"]
    # Of another data directory, so that nobody works on the job before it is cancelled.
    jobs, job_id = StoredJobs(app.extensions["rag.service"].catalog, "elsewhere"), uuid.uuid4().hex
    told = [(each, f"{each}/x.md", {"v": 2}) for each in (file_id, other_id)]
    files = [SpooledFile(number, "x.md", "text/markdown", 9, "", *each) for number, each in enumerate(told)]
    jobs.create(job_id, Wanted(name), files, asker=Asker(), collection_id=collection_id)
    assert client.get(f"{store}/files/{file_id}").json["status"] == "in_progress"
    assert client.post(f"{store}/file_batches/vsfb_{job_id}/cancel").json["status"] == "cancelled"
    place = f"{store}/files/{file_id}"
    assert client.get(place).json == before
    assert [each["text"] for each in client.get(f"{place}/content").json["data"]] == [BACKUPS]
    listed = client.get(f"{store}/files").json["data"]
    assert [(each["id"], each["status"]) for each in listed] == [(other_id, "cancelled"), (file_id, "completed")]
    told = client.get(store).json["file_counts"]
    assert (told["completed"], told["cancelled"], told["total"]) == (1, 1, 2)
    assert client.post(place, json={"attributes": {"v": 3}}).json["attributes"] == {"v": 3}
    batch = client.get(f"{store}/file_batches/vsfb_{job_id}").json
    assert (batch["status"], batch["file_counts"]["cancelled"]) == ("cancelled", 2)


def test_a_detached_file_is_gone_from_the_store_and_kept(client, keep, store, attach):
    file = keep("a.md", BACKUPS)
    attach(file)
    place = f"{store}/files/{file}"
    assert client.delete(place).json == {"id": file, "object": "vector_store.file.deleted", "deleted": True}
    assert [client.open(place, method=method).status_code for method in ("GET", "DELETE")] == [404, 404]
    assert client.get(f"/v1/files/{file}").status_code == 200
    attach(file)
    client.delete(f"/v1/files/{file}")
    assert client.get(place).json["error"]["code"] == "file_not_in_store"


def test_pages_hold_stored_and_failed_files_once_each(client, keep, store, batch):
    ids = [keep(f"{number}.md", f"Number {number}") for number in range(4)] + [keep("x.exe", "MZ"), keep("y.exe", "MZ")]
    made = batch(ids)
    assert made["file_counts"] == {"in_progress": 0, "completed": 4, "failed": 2, "cancelled": 0, "total": 6}
    places = f"{store}/files", f"{store}/file_batches/{made['id']}/files"
    stored = [each["id"] for each in client.get(f"{places[0]}?order=asc").json["data"]]
    assert (sorted(stored[:4]), stored[4:]) == (ids[:4], ids[4:]), "two were stored at a time"
    for order, step in (("asc", 1), ("desc", -1)):
        for place, expected in zip(places, (stored[::step], ids[::step]), strict=True):
            seen, after = [], ""
            while after is not None:
                page = client.get(f"{place}?order={order}&limit=2{after}").json
                seen += [each["id"] for each in page["data"]]
                after = f"&after={page['last_id']}" if page["has_more"] else None
            assert seen == expected
            before = client.get(f"{place}?order={order}&limit=3&before={expected[4]}").json
            assert ([each["id"] for each in before["data"]], before["has_more"]) == (expected[1:4], True)
    for query, param in (({"after": "nobody"}, "after"), ({"before": ids[0], "after": ids[1]}, "before")):
        answer = client.get(f"{store}/file_batches/{made['id']}/files", query_string=query)
        assert (answer.status_code, answer.json["error"]["param"]) == (400, param)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "of_batch", "wholly"),
    [("asc", False, False), ("asc", True, True), ("desc", False, True), ("desc", True, False)],
)
def test_a_loop_may_delete_what_it_lists(client, keep, store, batch, order, of_batch, wholly):
    ids = [keep(f"{number}.md", f"Number {number}") for number in range(3)] + [keep("x.exe", "MZ")]
    made = batch(ids)
    place = f"{store}/file_batches/{made['id']}/files" if of_batch else f"{store}/files"
    seen, query = [], {"limit": 1, "order": order}
    while "after" not in query or query["after"]:
        page = client.get(place, query_string=query)
        assert page.status_code == 200, page.text
        seen += [each["id"] for each in page.json["data"]]
        assert client.delete(f"/v1/files/{seen[-1]}" if wholly else f"{store}/files/{seen[-1]}").status_code == 200
        query["after"] = page.json["last_id"] if page.json["has_more"] else None
    assert sorted(seen) == ids
    assert client.get(store).json["file_counts"]["total"] == 0


def test_files_of_a_batch_have_attributes_of_their_own(client, keep, store, settled):
    ids = [keep("a.md", BACKUPS), keep("b.md", COFFEE)]
    files = [{"file_id": each, "attributes": {"place": place}} for place, each in enumerate(ids)]
    batch = client.post(f"{store}/file_batches", json={"files": files}).json
    assert batch["id"].startswith("vsfb_")
    assert settled(f"{store}/file_batches/{batch['id']}")["status"] == "completed"
    assert found(client, store, "coffee", "place", 1) == [ids[1]]
    cancelled = client.post(f"{store}/file_batches/{batch['id']}/cancel").json
    assert (cancelled["status"], cancelled["file_counts"]["completed"]) == ("completed", 2)
    other = client.post("/v1/vector_stores", json={}).json["id"]
    for place in (f"/v1/vector_stores/{other}/file_batches/{batch['id']}", f"{store}/file_batches/vsfb_nobody"):
        assert client.get(place).json["error"]["code"] == "batch_not_found"
    client.delete(f"/v1/vector_stores/{other}")


def test_what_is_not_there_is_not_attached(client, store):
    missing = {"files": {"file_id": "nobody"}, "file_batches": {"file_ids": ["nobody"]}, "files/nobody": {}}
    for path, body in missing.items():
        answer = client.post(f"{store}/{path}", json=body)
        assert (answer.status_code, answer.json["error"]["param"]) == (404, None), answer.text
    assert client.get(store).json["file_counts"]["total"] == 0
