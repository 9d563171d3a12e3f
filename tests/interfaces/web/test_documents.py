"""`/api/documents` and `/api/jobs` over HTTP."""

import io
import json

import pytest
from werkzeug.datastructures import FileStorage
from werkzeug.test import encode_multipart

from retrieval.jobs.stored_jobs import Limits
from tests.support.live import eventually

ENDED = ("done", "failed", "cancelled")
RAW = {"X-Filename": "a.md", "Content-Type": "text/markdown"}


def form(*files, **fields):
    return {"file": [(io.BytesIO(content), name) for name, content in files], **fields}


def large_form(*files, **fields):
    """Return the arguments for a form beyond 500 KB, which the client would write to a file that it leaves open."""
    storages = [FileStorage(io.BytesIO(content), name) for name, content in files]
    boundary, body = encode_multipart({"file": storages, **fields})
    return {"data": body, "content_type": f"multipart/form-data; boundary={boundary}"}


@pytest.fixture
def finished(client):
    """`finished(answer)`: the job of an upload, once it has ended."""

    def wait(answer):
        assert answer.status_code == 202, answer.json
        place = f"/api/jobs/{answer.json['job']['id']}"
        eventually(lambda: client.get(place).json["status"] in ENDED, complaint=lambda: client.get(place).text)
        return client.get(place).json

    return wait


@pytest.fixture
def spooled(app):
    """`spooled()`: the folders of jobs in the spool."""
    folder = app.extensions["rag.service"].settings.data_dir / "uploads"
    return lambda: {each.name for each in folder.iterdir() if each.is_dir()}


def test_files_go_in_by_a_form_and_are_found_shown_and_deleted(client, collection, finished):
    answer = client.post(
        f"/api/documents?collection={collection}&tags=ops,%20night",
        data=form(
            ("handbook/backups.md", b"# Backups\n\nThey run every night at two."),
            ("notes/ü.txt", "Über Nacht.".encode()),
            ("setup.exe", b"MZ"),
            ("../up.md", b"x"),
            ("empty.md", b""),
            ("notes/ü.txt", b"the same name"),
            ("rows.jsonl", b"{}"),
            metadata='{"team": "x"}',
        ),
    )
    assert [(each["name"], each["status"], each.get("code")) for each in answer.json["files"]] == [
        ("handbook/backups.md", "queued", None),
        ("notes/ü.txt", "queued", None),
        ("setup.exe", "refused", "unsupported_kind"),
        ("../up.md", "refused", "invalid_name"),
        ("empty.md", "refused", "empty"),
        ("notes/ü.txt", "refused", "repeated_name"),
        ("rows.jsonl", "refused", "unsupported_kind"),
    ]
    job = finished(answer)
    assert (job["status"], job["collection"]) == ("done", collection)
    assert job["progress"] == {"files": 2, "files_done": 2, "chunks": 2, "chunks_done": 2}
    assert [each["status"] for each in job["files"]] == ["done", "done"]
    listed = client.get(f"/api/documents?collection={collection}").json
    assert (listed["total"], listed["next_cursor"]) == (2, None)
    first = listed["documents"][0]
    assert (
        first.items()
        >= {
            "id": job["files"][0]["document_id"],
            "source": "handbook/backups.md",
            "name": "backups.md",
            "title": "Backups",
            "kind": "markdown",
            "tags": ["ops", "night"],
            "chunks": 1,
            "bytes": 39,
            "has_original": False,
        }.items()
    )
    assert client.get(f"/api/documents/{first['id']}").json == first
    shown = client.get(f"/api/documents/{first['id']}?chunks=true").json
    assert shown["chunks"] == [
        {
            "id": shown["chunks"][0]["id"],
            "text": "# Backups\n\nThey run every night at two.",
            "chunk_index": 0,
            "section": "Backups",
            "start_line": 1,
        }
    ]
    found = client.post("/api/search", json={"query": "when do backups run?", "collections": [collection]}).json
    assert found["results"][0]["metadata"]["team"] == "x"
    assert client.get(f"/api/documents/{first['id']}/original").json["code"] == "original_not_kept"
    gone = client.delete(f"/api/documents/{first['id']}").json
    assert gone == {"status": "deleted", "id": first["id"], "collection": collection, "chunks": 1}
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/original"), ("GET", "?chunks=true")):
        answer = client.open(f"/api/documents/{first['id']}{path}", method=method)
        assert (answer.status_code, answer.json["code"]) == (404, "document_not_found")


@pytest.mark.parametrize("header", ["n%C3%B6te.txt", "nöte.txt".encode().decode("latin-1")])
def test_one_file_goes_in_as_the_body(client, collection, finished, header):
    answer = client.post(
        f"/api/documents?collection={collection}",
        data="Grüße".encode("cp1252") * 9,
        headers={"X-Filename": header, "Content-Type": "text/plain; charset=cp1252"},
    )
    assert finished(answer)["files"][0]["name"] == "nöte.txt"
    assert client.get(f"/api/documents?collection={collection}&kind=text").json["total"] == 1


def test_the_same_file_under_an_idempotency_key_is_one_job(client, collection, finished, spooled):
    def send(content=b"# A\n\nOnce.", **fields):
        return client.post(
            "/api/documents",
            data=form(("a.md", content), collection=collection, **fields),
            headers={"Idempotency-Key": f"key of {collection}"},
        )

    first, again = send(), send()  # each form has a boundary of its own
    assert first.json == again.json
    assert again.headers["Idempotent-Replayed"] == "true"
    finished(first)
    assert first.json == send().json
    assert first.json["job"]["id"] not in spooled()
    for other in (send(b"# A\n\nTwice."), send(tags="x")):
        assert (other.status_code, other.json["code"]) == (409, "idempotency_key_reused")
    assert len([job for job in client.get("/api/jobs?limit=100").json["jobs"] if job["collection"] == collection]) == 1


@pytest.mark.parametrize(
    ("query", "data", "headers", "field"),
    [
        ("collection=..", b"x", RAW, "collection"),
        ("collection=", b"x", RAW, "collection"),
        ("tags=" + ",".join(map(str, range(101))), b"x", RAW, "tags"),
        ("metadata=[1]", b"x", RAW, "metadata"),
        ("metadata=nonsense", b"x", RAW, "metadata"),
        ('metadata={"a":1e999}', b"x", RAW, "metadata"),
        ('metadata={"tags":5}', b"x", RAW, "metadata"),
        ('metadata={"tags":["a",5]}', b"x", RAW, "metadata"),
        ('metadata={"language":5}', b"x", RAW, "metadata"),
        ("on_conflict=error", b"x", RAW, "on_conflict"),
        ("on_confict=skip", b"x", RAW, "on_confict"),
        ("", b"x", {"Content-Type": "text/plain"}, "X-Filename"),
        ("", b"x", {"Content-Type": "text/plain", "X-Filename": "%FF.txt"}, "X-Filename"),
        ("", b"", RAW, "file"),
        ("", b"", {}, "X-Filename"),
        ("", b"x", {"X-Filename": "a.exe"}, "file"),
        ("", b"x", {"X-Filename": "../a.md"}, "file"),
        ("", b"x", {"Content-Type": "multipart/form-data"}, "Content-Type"),
        ("", b"x", {"Content-Type": "multipart/form-data; boundary=b"}, "file"),
        ("", b"--b--\r\n", {"Content-Type": "multipart/form-data; boundary=b"}, "file"),
        ("", form(), {}, "file"),
        ("", form(tags="a"), {"Content-Type": "multipart/form-data"}, "file"),
        ("", form(("a.md", b"x"), metadata="{"), {}, "metadata"),
        ("", form(("a.md", b"x"), metadata=b"\xff"), {}, "metadata"),
        ("", form(("a.md", b"x"), tags="x" * 300_000), {}, "tags"),
        ("", form(("a.md", b"x"), tgas="x"), {}, "tgas"),
        ("tags=a", form(("a.md", b"x"), tags="b"), {}, "tags"),
        ("", form(("a.md", b"x"), tags=["a", "b"]), {}, "tags"),
        ("", {"files": (io.BytesIO(b"x"), "a.md")}, {}, "file"),
        ("", {"file": "no file but a field"}, {"Content-Type": "multipart/form-data"}, None),
    ],
)
def test_a_bad_upload_is_refused_by_field_and_leaves_nothing(client, spooled, query, data, headers, field):
    spools, jobs = spooled(), len(client.get("/api/jobs?limit=100").json["jobs"])
    if isinstance(data, dict):  # the client makes a form of it, and its boundary
        answer = client.post("/api/documents", query_string=query, data=data, content_type="multipart/form-data")
    else:
        answer = client.post("/api/documents", query_string=query, data=data, headers=headers)
    assert answer.status_code == 400, answer.json
    if field is not None:
        assert answer.json["details"]["field"] == field, answer.json
    assert spooled() <= spools
    assert len(client.get("/api/jobs?limit=100").json["jobs"]) == jobs


def test_a_simple_form_is_refused_as_any_page_may_send_one(client):
    answer = client.post("/api/documents", data={"file": "x"}, headers={"X-Filename": "a.md"})
    assert (answer.status_code, answer.json["details"]["allowed"]) == (415, ["multipart/form-data"])


def test_when_all_files_are_refused_each_has_its_reason(client):
    answer = client.post("/api/documents", data=form(("a.exe", b"x"), ("/etc/x", b"x"), ("b\x7f.md", b"x")))
    assert (answer.status_code, answer.json["code"]) == (400, "no_file_taken")
    assert [(each["name"], each["code"]) for each in answer.json["details"]["files"]] == [
        ("a.exe", "unsupported_kind"),
        ("/etc/x", "invalid_name"),
        ("b\ufffd.md", "invalid_name"),
    ]


def test_pages_go_through_collections_in_order_and_skip_nothing(client, collection, finished):
    names = [f"{collection}-{letter}" for letter in "abc"]
    for name in names:
        files = [(f"{number}.md", f"# {number}\n\nOf {name}.".encode()) for number in range(3)]
        finished(client.post("/api/documents", data=form(*files, collection=name, tags=name[-1])))
    asked = {"collection": f"{collection}*", "limit": 2}
    seen, cursor = [], None
    while True:
        page = client.get("/api/documents", query_string=asked | ({"cursor": cursor} if cursor else {})).json
        assert page["total"] == 9
        seen += [(each["collection"], each["source"]) for each in page["documents"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        assert len(page["documents"]) == 2
    assert seen == [(name, f"{number}.md") for name in names for number in range(3)]
    assert client.get("/api/documents", query_string=asked | {"tag": "b"}).json["total"] == 3
    assert client.get("/api/documents", query_string=asked | {"source": "1.md"}).json["total"] == 3
    assert client.get("/api/documents", query_string=asked | {"kind": "pdf"}).json["documents"] == []
    first = client.get("/api/documents", query_string=asked).json["next_cursor"]
    other = client.get("/api/documents", query_string=asked | {"tag": "b", "cursor": first})
    assert (other.status_code, other.json["code"]) == (400, "invalid_cursor")
    document = client.get("/api/documents", query_string=asked).json["documents"][0]["id"]
    for path in (f"/api/documents/{document}", f"/api/documents/{document}/original"):
        several = client.get(path)
        assert (several.status_code, several.json["code"]) == (409, "ambiguous_document")
        assert set(several.json["details"]["allowed"]) == set(names)
    assert client.get(f"/api/documents/{document}?collection={names[1]}").json["collection"] == names[1]
    assert client.delete(f"/api/documents/{document}").status_code == 409
    assert client.delete(f"/api/documents/{document}?collection={names[1]}").json["collection"] == names[1]


def test_a_text_that_was_sent_is_listed_beside_files(client, finished):
    text = {"source": "handbook", "path": "sent.md", "title": "Sent", "text": "A text of seven words in all."}
    client.post("/api/rag/ingest", json=text)
    shown = client.get("/api/documents?source=handbook&kind=markdown").json["documents"]
    [sent] = [each for each in shown if each["name"] == "sent.md"]
    assert (sent["collection"], sent["title"], sent["bytes"], sent["chunks"]) == ("rag-documents", "Sent", 29, 1)
    finished(client.post("/api/documents", data=form(("handbook/sent.md", b"# Now a file\n\nOf the same name."))))
    listed = client.get("/api/documents?source=handbook/sent.md").json["documents"]
    assert [each["title"] for each in listed] == ["Now a file"]
    assert client.get(f"/api/documents/{sent['id']}").status_code == 404
    client.delete(f"/api/documents/{listed[0]['id']}")


class TestJobs:
    def test_a_job_that_is_not_there_is_a_404(self, client):
        for method in (client.get, client.delete):
            answer = method("/api/jobs/never")
            assert (answer.status_code, answer.json["code"]) == (404, "job_not_found")

    def test_an_ended_job_stays_as_it_ended(self, client, collection, finished):
        job = finished(client.post("/api/documents", data=form(("a.md", b"# A"), collection=collection)))
        assert client.delete(f"/api/jobs/{job['id']}").json == job
        assert client.get("/api/jobs?status=done&limit=100").json["jobs"].count(job) == 1

    def test_no_more_is_told_than_what_the_client_gave(self, client, collection, finished, app):
        job = finished(client.post("/api/documents", data=form(("a.txt", b"\0\1\2"), collection=collection)))
        assert (job["status"], job["files"][0]["code"]) == ("failed", "unreadable")
        assert str(app.extensions["rag.service"].settings.data_dir) not in json.dumps(job)


class TestBounds:
    def test_a_file_beyond_its_limit_is_refused_and_the_others_go_on(
        self, client, collection, finished, app, monkeypatch
    ):
        monkeypatch.setattr(app.extensions["rag.layers"].uploads, "_max_file_bytes", 1 << 20)
        large = b"x" * ((1 << 20) + 1)
        files = (("a.md", large), ("b.md", b"# B"))
        answer = client.post("/api/documents", **large_form(*files, collection=collection))
        assert [(each["status"], each.get("code")) for each in answer.json["files"]] == [
            ("refused", "too_large"),
            ("queued", None),
        ]
        assert finished(answer)["progress"]["files"] == 1

    def test_an_upload_beyond_the_limit_of_bodies_names_the_part(self, client, app, monkeypatch, spooled):
        before = spooled()
        monkeypatch.setitem(app.config, "MAX_BODY_BYTES", 1 << 20)
        answer = client.post("/api/documents", **large_form(("a.md", b"# A"), ("b.md", b"x" * (2 << 20))))
        assert (answer.status_code, answer.json["code"]) == (413, "payload_too_large")
        assert answer.json["details"].items() >= {"field": "file", "part": 2, "limit_bytes": 1 << 20}.items()
        assert spooled() <= before

    def test_too_many_files_are_refused_at_once(self, client, spooled):
        before = spooled()
        answer = client.post("/api/documents", data=form(*((f"{number}.md", b"x") for number in range(1_001))))
        assert (answer.status_code, answer.json["code"], answer.json["details"]["limit"]) == (
            413,
            "too_many_files",
            1_000,
        )
        assert spooled() <= before

    @pytest.mark.parametrize("limits", [Limits(jobs=0), Limits(spool_bytes=2)])
    def test_when_too_much_waits_the_client_is_told_when_to_come_back(self, client, app, monkeypatch, spooled, limits):
        before = spooled()
        monkeypatch.setattr(app.extensions["rag.layers"].jobs, "_limits", limits)
        answer = client.post("/api/documents", data=form(("a.md", b"# A")))
        assert (answer.status_code, answer.json["code"]) == (503, "jobs_full")
        assert int(answer.headers["Retry-After"]) > 0
        assert spooled() <= before

    def test_a_disk_below_its_floor_takes_no_upload(self, client, app, monkeypatch, spooled):
        before = spooled()
        monkeypatch.setattr(app.extensions["rag.service"].store.writing, "_disk_floor_mb", 1 << 40)
        answer = client.post("/api/documents", data=form(("a.md", b"# A")))
        assert (answer.status_code, answer.json["code"]) == (507, "disk_floor_reached")
        assert spooled() <= before


@pytest.mark.parametrize("name", [b"r\xe9sum\xe9.txt", b"\xff\xfe.md"])
def test_a_name_in_a_form_that_is_not_utf_8_is_refused(client, name):
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="%b"\r\n\r\nText.\r\n--b--\r\n' % name
    answer = client.post("/api/documents", data=body, headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_multipart")
    assert answer.json["message"] == "The name in part 1 of the form is not UTF-8"
    assert answer.json["details"].items() >= {"field": "file", "part": 1}.items()


def test_a_long_name_in_many_letters_is_stored_and_found(client, collection, finished):
    name = "/".join(["ü" * 60, "ケーキ" * 20, "x" * 170 + ".md"])
    finished(client.post("/api/documents", data=form((name, b"# Long"), collection=collection)))
    [listed] = client.get("/api/documents", query_string={"collection": collection, "source": name}).json["documents"]
    assert (listed["source"], listed["name"]) == (name, "x" * 170 + ".md")
