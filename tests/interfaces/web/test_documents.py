"""`/api/documents` and `/api/jobs` over HTTP."""

import hashlib
import io
import json

import pytest
from werkzeug.datastructures import FileStorage
from werkzeug.test import encode_multipart

from retrieval.jobs.stored_jobs import Limits
from tests.support.documents.samples import zipped
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


@pytest.fixture(scope="module")
def finished(app):
    """`finished(answer)`: the job of an upload, once it has ended."""
    client = app.test_client()

    def wait(answer):
        assert answer.status_code == 202, answer.json
        place = f"/api/jobs/{answer.json['job']['id']}"
        eventually(lambda: client.get(place).json["status"] in ENDED, complaint=lambda: client.get(place).text)
        return client.get(place).json

    return wait


@pytest.fixture
def leaves_nothing(app, client):
    """Fails when the test leaves a folder in the spool, or a job."""
    folder = app.extensions["rag.service"].settings.data_dir / "uploads"

    def kept():
        jobs = client.get("/api/jobs?limit=100").json["jobs"]
        return {each["id"] for each in jobs} | {each.name for each in folder.iterdir() if each.is_dir()}

    before = kept()
    yield
    assert kept() <= before


@pytest.fixture(scope="module")
def sent(app):
    """The answer to a form of six files."""
    return app.test_client().post(
        "/api/documents?collection=sent-by-a-form&tags=ops,%20night",
        data=form(
            ("handbook/backups.md", b"# Backups\n\nThey run every night at two."),
            ("notes/ü.txt", "Über Nacht.".encode()),
            ("setup.exe", b"MZ"),
            ("../up.md", b"x"),
            ("empty.md", b""),
            ("notes/ü.txt", b"the same name"),
            ("old.doc", b"\xd0\xcf\x11\xe0"),
            ("a.zip", zipped({"below/a.md": "# Tides\n\nHigh.", "b.exe": "MZ", ".env": "x", "in.zip": "PK"})),
            ("bad.zip", b"PK\3\4"),
            metadata='{"team": "x", "tags": 3, "$or": 1}',
        ),
    )


def test_files_are_compared_with_what_is_stored(client, collection, finished):
    def compared(*files, **more):
        named = [{"name": name, "sha256": hashlib.sha256(content).hexdigest()} for name, content in files]
        answer = client.post("/api/documents/compare", json={"collection": collection, "files": named, **more})
        return [answer.json[name] for name in ("missing", "changed", "unchanged")]

    guide, long = ("docs/u\u0308.md", b"# Guide"), ("docs/long.md", b"# A\n\nOf one.\n\n# B\n\nOf two.\n")
    assert compared(guide, long) == [[guide[0], long[0]], [], 0]
    finished(client.post(f"/api/documents?collection={collection}", data=form(guide, long)))
    changed = ("docs/long.md", b"# A")
    assert compared(guide, long, ("new.md", b"x")) == [["new.md"], [], 2]
    assert compared(guide, changed) == [[], [changed[0]], 1]
    assert compared(guide, metadata={"folder": "docs"}) == [[], [guide[0]], 0]
    second = {"where": {"$and": [{"source": long[0]}, {"chunk_index": 1}]}}
    assert client.delete(f"/collections/{collection}/documents", json=second).json["count"] == 1
    assert compared(guide, long) == [[], [long[0]], 1]
    refused = client.post("/api/documents/compare", json={"files": [{"name": "a", "sha256": "x"}]})
    assert (refused.status_code, refused.json["details"]["field"]) == (400, "files.0.sha256")
    client.delete(f"/collections/{collection}")


@pytest.fixture(scope="module")
def listed(app, sent, finished):
    finished(sent)
    found = app.test_client().get("/api/documents?collection=sent-by-a-form").json
    yield found | {"documents": sorted(found["documents"], key=lambda each: each["source"])}  # in whatever order stored
    app.test_client().delete("/collections/sent-by-a-form")


def test_each_file_is_taken_or_refused_with_the_reason_and_the_job_counts_what_was_taken(sent, listed, finished):
    assert [(each["name"], each["status"], each.get("code")) for each in sent.json["files"]] == [
        ("handbook/backups.md", "queued", None),
        ("notes/ü.txt", "queued", None),
        ("setup.exe", "refused", "unsupported_kind"),
        ("../up.md", "refused", "invalid_name"),
        ("empty.md", "refused", "empty"),
        ("notes/ü.txt", "refused", "repeated_name"),
        ("old.doc", "refused", "unsupported_kind"),
        ("a.zip/below/a.md", "queued", None),
        ("a.zip/b.exe", "refused", "unsupported_kind"),
        ("a.zip/.env", "refused", "secret"),
        ("a.zip/in.zip", "refused", "unsupported_kind"),
        ("bad.zip", "refused", "unreadable"),
    ]
    job = finished(sent)
    assert (job["status"], job["collection"]) == ("done", "sent-by-a-form")
    assert job["progress"] == {"files": 3, "files_done": 3, "chunks": 3, "chunks_done": 3}
    assert [each["status"] for each in job["files"]] == ["done"] * 3
    assert {each["document_id"] for each in job["files"]} == {each["id"] for each in listed["documents"]}


def test_documents_are_listed_with_what_was_given_shown_with_their_chunks_and_found_with_their_metadata(listed, client):
    assert (listed["total"], listed["next_cursor"]) == (3, None)
    assert listed["documents"][0]["source"] == "a.zip/below/a.md"
    told = {"source": "handbook/backups.md", "name": "backups.md", "title": "Backups", "kind": "markdown"}
    told |= {"tags": ["ops", "night"], "chunks": 1, "bytes": 39, "has_original": False}
    assert listed["documents"][1].items() >= told.items()
    document = listed["documents"][1]
    place = f"/api/documents/{document['id']}"
    assert client.get(place).json == document
    [chunk] = client.get(f"{place}?chunks=true").json["chunks"]
    expected = {"text": "# Backups\n\nThey run every night at two.", "section": "Backups", "chunk_index": 0}
    assert chunk == {"id": chunk["id"], "start_line": 1, **expected}
    assert client.get(f"{place}/original").json["code"] == "original_not_kept"
    asked = {"query": "when do backups run?", "collections": ["sent-by-a-form"]}
    found = client.post("/api/search", json=asked | {"where": {"attributes.$or": 1, "attributes.tags": 3}})
    assert found.json["results"][0]["metadata"].items() >= {"team": "x", "tags": ["ops", "night"]}.items()


@pytest.mark.slow
@pytest.mark.parametrize("header", ["n%C3%B6te.txt", "nöte.txt".encode().decode("latin-1")])
def test_one_file_goes_in_as_the_body(client, collection, finished, header):
    answer = client.post(
        f"/api/documents?collection={collection}",
        data="Grüße".encode("cp1252") * 9,
        headers={"X-Filename": header, "Content-Type": "text/plain; charset=cp1252"},
    )
    assert finished(answer)["files"][0]["name"] == "nöte.txt"
    assert client.get(f"/api/documents?collection={collection}&kind=text").json["total"] == 1


def test_the_same_file_under_an_idempotency_key_is_one_job(app, client, collection, finished):
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
    spool = app.extensions["rag.service"].settings.data_dir / "uploads"
    assert not (spool / first.json["job"]["id"]).exists()
    for other in (send(b"# A\n\nTwice."), send(tags="x")):
        assert (other.status_code, other.json["code"]) == (409, "idempotency_key_reused")
    assert len([job for job in client.get("/api/jobs?limit=100").json["jobs"] if job["collection"] == collection]) == 1


@pytest.mark.parametrize(
    ("query", "data", "headers", "field"),
    [
        ("collection=..", b"x", RAW, "collection"),
        ("tags=" + ",".join(map(str, range(101))), b"x", RAW, "tags"),
        ("metadata=[1]", b"x", RAW, "metadata"),
        ('metadata={"a":1e999}', b"x", RAW, "metadata"),
        ("on_conflict=error", b"x", RAW, "on_conflict"),
        ("on_confict=skip", b"x", RAW, "on_confict"),
        ("", b"x", {"Content-Type": "text/plain"}, "X-Filename"),
        ("", b"x", {"Content-Type": "text/plain", "X-Filename": "%FF.txt"}, "X-Filename"),
        ("", b"", RAW, "file"),
        ("", b"x", {"X-Filename": "a.exe"}, "file"),
        ("", b"x", {"Content-Type": "multipart/form-data"}, "Content-Type"),
        ("", b"x", {"Content-Type": "multipart/form-data; boundary=b"}, "file"),
        ("", b"--b--\r\n", {"Content-Type": "multipart/form-data; boundary=b"}, "file"),
        ("", form(), {}, "file"),
        ("", form(("a.md", b"x"), metadata=b"\xff"), {}, "metadata"),
        ("", form(("a.md", b"x"), tags="x" * 300_000), {}, "tags"),
        ("", form(("a.md", b"x"), tgas="x"), {}, "tgas"),
        ("tags=a", form(("a.md", b"x"), tags="b"), {}, "tags"),
        ("", form(("a.md", b"x"), tags=["a", "b"]), {}, "tags"),
        ("", {"files": (io.BytesIO(b"x"), "a.md")}, {}, "file"),
        ("", {"file": "no file but a field"}, {"Content-Type": "multipart/form-data"}, None),
    ],
)
def test_a_bad_upload_is_refused_by_field_and_leaves_nothing(client, leaves_nothing, query, data, headers, field):
    if isinstance(data, dict):  # the client makes a form of it, and its boundary
        headers = {"Content-Type": "multipart/form-data"}
    answer = client.post("/api/documents", query_string=query, data=data, headers=headers)
    assert answer.status_code == 400, answer.json
    assert field in (None, answer.json["details"].get("field")), answer.json


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


@pytest.mark.slow
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
    assert [name for name, _ in seen] == [name for name in names for _ in range(3)]
    assert {*seen} == {(name, f"{number}.md") for name in names for number in range(3)}
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


class TestJobs:
    def test_an_ended_job_stays_as_it_ended_and_tells_no_more_than_what_the_client_gave(
        self, client, collection, finished, app
    ):
        job = finished(client.post("/api/documents", data=form(("a.md", b"# A"), collection=collection)))
        assert client.delete(f"/api/jobs/{job['id']}").json == job
        assert client.get("/api/jobs?status=done&limit=100").json["jobs"].count(job) == 1
        for method in (client.get, client.delete):
            assert method("/api/jobs/never").json["code"] == "job_not_found"
        job = finished(client.post("/api/documents", data=form(("a.txt", b"\0\1\2"), collection=collection)))
        assert (job["status"], job["files"][0]["code"]) == ("failed", "unreadable")
        assert str(app.extensions["rag.service"].settings.data_dir) not in json.dumps(job)


class TestBounds:
    def test_a_file_beyond_its_limit_is_refused_and_the_others_go_on(
        self, client, collection, finished, app, monkeypatch
    ):
        monkeypatch.setattr(app.extensions["rag.layers"].uploads, "max_file_bytes", 1 << 20)
        large = b"x" * ((1 << 20) + 1)
        files = (("a.md", large), ("b.md", b"# B"))
        answer = client.post("/api/documents", **large_form(*files, collection=collection))
        assert [(each["status"], each.get("code")) for each in answer.json["files"]] == [
            ("refused", "too_large"),
            ("queued", None),
        ]
        assert finished(answer)["progress"]["files"] == 1

    def test_an_upload_beyond_the_limit_of_bodies_names_the_part(self, client, leaves_nothing, app, monkeypatch):
        monkeypatch.setitem(app.config, "MAX_BODY_BYTES", 1 << 20)
        form = large_form(("a.md", b"# A"), ("b.md", b"x" * (2 << 20)))
        chunked = {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
        answer = client.post("/api/documents", **form, environ_overrides=chunked)
        assert (answer.status_code, answer.json["code"]) == (413, "payload_too_large")
        assert answer.json["details"].items() >= {"field": "file", "part": 2, "limit_bytes": 1 << 20}.items()

    @pytest.mark.slow
    def test_too_many_files_are_refused_at_once(self, client, leaves_nothing):
        answer = client.post("/api/documents", data=form(*((f"{number}.md", b"x") for number in range(1_001))))
        assert (answer.status_code, answer.json["code"]) == (413, "too_many_files")
        assert answer.json["details"]["limit"] == 1_000

    @pytest.mark.parametrize("limits", [Limits(jobs=0), Limits(spool_bytes=2)])
    def test_when_too_much_waits_the_client_is_told_when_to_come_back(
        self, client, leaves_nothing, app, monkeypatch, limits
    ):
        monkeypatch.setattr(app.extensions["rag.layers"].jobs, "_limits", limits)
        answer = client.post("/api/documents", data=form(("a.md", b"# A")))
        assert (answer.status_code, answer.json["code"]) == (503, "jobs_full")
        assert int(answer.headers["Retry-After"]) > 0

    def test_a_disk_below_its_floor_takes_no_upload(self, client, leaves_nothing, app, monkeypatch):
        monkeypatch.setattr(app.extensions["rag.service"].store.writing, "_disk_floor_mb", 1 << 40)
        answer = client.post("/api/documents", data=form(("a.md", b"# A")))
        assert (answer.status_code, answer.json["code"]) == (507, "disk_floor_reached")


def test_a_long_name_in_many_letters_is_stored_and_found(client, collection, finished):
    name = "/".join(["ü" * 60, "ケーキ" * 20, "x" * 170 + ".md"])
    finished(client.post("/api/documents", data=form((name, b"# Long"), collection=collection)))
    [listed] = client.get("/api/documents", query_string={"collection": collection, "source": name}).json["documents"]
    assert (listed["source"], listed["name"]) == (name, "x" * 170 + ".md")
