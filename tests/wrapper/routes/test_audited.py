"""Which requests have a line in the audit log, and what it says; no answer is given without one that belongs to it."""

import os

import pytest
from flask.testing import FlaskClient

from schemas.errors import AuditUnwritableError
from schemas.settings import AccessSettings
from tests.wrapper.audit.conftest import lines_of
from wrapper.audit.audit_log import AuditLog

DOCUMENTS = [{"id": f"d{number}", "text": "secret words", "embedding": [number, 1.0]} for number in range(450)]


@pytest.fixture
def lines(tmp_path):
    """`lines()` returns what has been added to the log since it was last called."""
    seen = 0

    def new():
        nonlocal seen
        found = lines_of(tmp_path / "audit")
        seen, found = len(found), found[seen:]
        return found

    return new


@pytest.fixture
def client(open_client):
    with open_client() as client:
        yield client


def _refuse(*_, **__):
    raise AuditUnwritableError("no room")


def told(line):
    return (line["method"], line["route"], line["scope"], line["collection"], line["count"], line["status"])


def test_writes_have_a_line_each_and_reads_have_none(client, lines):
    client.post("/collections", json={"name": "handbook"})
    client.post("/collections/handbook/documents", json={"documents": DOCUMENTS[:3]})
    client.get("/collections/handbook/documents")
    client.post("/collections/handbook/documents/search", json={})
    client.patch("/collections/handbook/documents/d1", json={"text": "new"})
    client.delete("/collections/handbook/documents", json={"ids": ["d0", "d1"]})
    client.put("/collections/handbook/metadata", json={"metadata": {"a": 1}})
    client.delete("/collections/handbook")
    client.get("/live")
    client.get("/no/such/route")
    documents = "/collections/{name}/documents"
    assert [told(line) for line in lines()] == [
        ("POST", "/collections", "manage", "handbook", 0, 201),
        ("POST", documents, "write", "handbook", 3, 202),
        ("PATCH", f"{documents}/{{id}}", "write", "handbook", 1, 202),
        ("DELETE", documents, "write", "handbook", 2, 202),
        ("PUT", "/collections/{name}/metadata", "manage", "handbook", 0, 200),
        ("DELETE", "/collections/{name}", "manage", "handbook", 1, 200),
    ]


def test_a_line_says_who_asked_from_where(client, lines):
    answer = client.post("/collections", json={"name": "handbook"}, headers={"X-Request-ID": "from-me"})
    (line,) = lines()
    assert (line["key_id"], line["user"], line["address"]) == ("open", None, "127.0.0.1")
    assert line["request_id"] == answer.headers["X-Request-ID"] == "from-me"
    assert client.post("/collections", json={"name": "other"}).headers["X-Request-ID"] == lines()[0]["request_id"]


def test_nothing_of_bodies_query_strings_or_ids_is_in_a_line(client, lines, tmp_path):
    client.post("/collections", json={"name": "handbook", "metadata": {"secret": "words"}})
    client.post("/collections/handbook/documents", json={"documents": DOCUMENTS[:1]})
    client.patch("/collections/handbook/documents/d0?secret=words", json={"text": "secret words"})
    client.post("/collections/handbook/documents?secret=words", json={"secret": "words"})
    client.get("/metrics", headers={"Authorization": "Bearer secret"})
    assert len(lines()) == 5
    assert b"secret" not in b"".join(each.read_bytes() for each in (tmp_path / "audit").iterdir())


def test_failed_writes_and_denials_have_a_line(client, lines):
    client.post("/collections/none/documents", json={"documents": DOCUMENTS[:1]})
    client.post("/collections", json={"name": "?"})
    client.get("/collections", headers={"Host": "evil.example"})
    client.get("/collections", headers={"Origin": "https://evil.example"})
    client.get("/no/such/route", headers={"Host": "evil.example"})
    assert [told(line) for line in lines()] == [
        ("POST", "/collections/{name}/documents", "write", "none", None, 404),
        ("POST", "/collections", "manage", None, None, 400),
        ("GET", "/collections", "read", None, None, 421),
        ("GET", "/collections", "read", None, None, 403),
        ("GET", "unknown", None, None, None, 421),
    ]


def test_a_line_counts_what_was_written_and_nothing_else(client, lines):
    client.post("/collections", json={"name": "handbook"})
    path, once = "/collections/handbook/documents", {"Idempotency-Key": "k"}
    for _ in range(2):
        client.post(path, json={"documents": DOCUMENTS[:2]}, headers=once)
    assert [line["count"] for line in lines()] == [0, 2, 0], "a repeat wrote nothing"
    refused = client.delete(path, json={"where": {"no": {"$exists": False}}})
    assert refused.json["code"] == "matches_everything"
    assert told(lines()[-1])[3:] == ("handbook", None, 400)
    line = b'{"id":"%d","text":"t","embedding":[1,2]}\n'
    body = b"".join(line % number for number in range(600)) + b"no line\n"
    answer = client.post("/collections/handbook/import", data=body, content_type="application/x-ndjson")
    assert answer.status_code == 400
    assert told(lines()[-1]) == ("POST", "/collections/{name}/import", "manage", "handbook", 500, 400)


def test_lines_about_keys_name_them(open_client, lines):
    admin = "an-administrators-key-for-tests"
    with open_client(access=AccessSettings(api_key=admin)) as client:
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {admin}"
        made = client.post("/api/keys", json={"name": "a", "scopes": ["read"]}).json
        first, place = made["id"], f"/api/keys/{made['id']}"
        client.patch(place, json={"name": "b"})
        second = client.post(f"{place}/rotate", json={}).json["id"]
        client.delete(place)
        client.delete("/api/keys/nokeyyet")
        client.delete(f"/api/keys/{made['key']}")
        client.get("/api/keys")
        client.delete(place, headers={"Authorization": f"Bearer {made['key']}"})
        found = lines()
        assert [(line["method"], line["status"], line.get("subject")) for line in found] == [
            ("POST", 201, first),
            ("PATCH", 200, first),
            ("POST", 201, f"{first},{second}"),
            ("DELETE", 200, first),
            ("DELETE", 404, "nokeyyet"),
            ("DELETE", 404, None),
            ("GET", 200, None),
            ("DELETE", 401, first),
        ]
        assert {line["key_id"] for line in found[:-1]}.isdisjoint({first, second})
        for key_id, count in ((first, 5), (second, 1)):
            assert len(client.get("/api/audit", query_string={"key": key_id}).json["entries"]) == count


def test_an_export_has_its_line_at_its_end_with_what_was_taken(client, lines):
    client.post("/collections", json={"name": "handbook"})
    client.post("/collections/handbook/documents", json={"documents": DOCUMENTS})
    lines()
    route = ("GET", "/collections/{name}/export", "read", "handbook")
    client.get("/collections/handbook/export")
    (whole,) = lines()
    assert (told(whole), "cut" in whole) == ((*route, 450, 200), False)
    reader = FlaskClient(client.application)  # which leaves it to the test how much it takes
    left = reader.get("/collections/handbook/export", buffered=False)
    parts = left.iter_encoded()
    next(parts)
    next(parts)
    assert lines() == []
    left.close()
    (cut,) = lines()
    assert (told(cut), cut["cut"]) == ((*route, 200, 200), True)
    reader.get("/collections/handbook/export", buffered=False).close()
    (unread,) = lines()
    assert (told(unread), unread["cut"]) == ((*route, 0, 200), True)


def test_reads_have_a_line_where_the_setting_says_so(open_client, lines):
    with open_client(access=AccessSettings(audit_reads=True)) as client:
        client.get("/collections")
        client.get("/collections/none")
        client.get("/live")
    assert [told(line) for line in lines()] == [
        ("GET", "/collections", "read", None, None, 200),
        ("GET", "/collections/{name}", "read", "none", None, 404),
    ]


class TestWithoutRoom:
    """A log that cannot be written to refuses what it would have to record, and nothing else."""

    @pytest.fixture
    def client(self, open_client, tmp_path):
        with open_client() as client:
            client.post("/collections", json={"name": "handbook"})
            client.post("/collections/handbook/documents", json={"documents": DOCUMENTS[:3]})
        (tmp_path / "audit").rename(tmp_path / "kept")
        (tmp_path / "audit").write_text("in the way")
        with open_client() as client:
            yield client

    def test_writes_are_refused_and_not_begun_while_reads_go_on_and_denials_stay(self, client, unchanged):
        with unchanged("handbook"):
            for answer in (
                client.post("/collections/handbook/documents", json={"documents": DOCUMENTS[5:6]}),
                client.delete("/collections/handbook"),
                client.post("/collections", json={"name": "other"}),
            ):
                assert (answer.status_code, answer.json["code"]) == (507, "audit_unwritable")
        assert len(client.get("/collections").json["collections"]) == 1
        assert client.post("/collections/handbook/documents/search", json={}).status_code == 200
        assert client.get("/live").status_code == 200
        assert client.get("/collections", headers={"Host": "evil.example"}).status_code == 421
        unrecorded = client.get("/collections/handbook/export")
        assert (unrecorded.status_code, unrecorded.json["code"]) == (503, "audit_unavailable")
        assert "secret" not in unrecorded.text
        assert "Retry-After" in unrecorded.headers

    def test_keys_are_neither_made_nor_changed_but_revoked(self, open_client, monkeypatch):
        access = AccessSettings(access="keys", api_key="k" * 40)
        headers = {"X-API-Key": "k" * 40}
        with open_client(access) as client:
            key_id, last = (
                client.post("/api/keys", json={"name": name, "scopes": ["read"]}, headers=headers).json["id"]
                for name in ("first", "second")
            )
            monkeypatch.setattr(AuditLog, "check", _refuse)
            monkeypatch.setattr(AuditLog, "append", _refuse)
            for method, path, body in (
                ("POST", "/api/keys", {"name": "more", "scopes": ["read"]}),
                ("PATCH", f"/api/keys/{key_id}", {"scopes": ["write"]}),
                ("POST", f"/api/keys/{key_id}/rotate", {}),
            ):
                answer = client.open(path, method=method, json=body, headers=headers)
                assert (answer.status_code, answer.json["code"]) == (507, "audit_unwritable"), path
            assert client.get("/api/keys", headers=headers).json["code"] == "audit_unavailable"
            revoked = client.delete(f"/api/keys/{key_id}", headers=headers)
            assert (revoked.status_code, revoked.json["status"]) == (200, "revoked")
            stored = {each.id: each for each in client.application.extensions["rag.access"].stored.all()}
            assert (stored[key_id].revoked_at is None, stored[last].revoked_at) == (False, None)


class TestTheRoomIsGoneMeanwhile:
    """What `check` set aside is taken away behind its back: a write is not answered as if it were recorded."""

    @pytest.fixture
    def client(self, open_client):
        with open_client() as client:
            client.post("/collections", json={"name": "handbook"})
            client.post("/collections/handbook/documents", json={"documents": DOCUMENTS})
            yield client

    @pytest.fixture
    def break_log(self, client, tmp_path):
        """Put files in the way as soon as the store is asked."""

        def broken():
            log = client.application.extensions["rag.service"].recorder.audit_log
            log.close()
            (tmp_path / "audit").rename(tmp_path / "kept")
            (tmp_path / "audit").write_text("in the way")

        return broken

    def test_a_write_that_is_done_says_that_it_is_not_recorded(self, client, break_log):
        checks = client.application.before_request_funcs[None]
        checks.append(lambda: break_log())
        answer = client.delete("/collections/handbook")
        assert (answer.status_code, answer.json["code"]) == (507, "not_recorded")
        assert "carried out" in answer.json["error"]
        checks.pop()
        assert client.get("/collections").json["collections"] == []

    def test_an_export_breaks_off_at_its_end(self, client, break_log):
        answer = FlaskClient(client.application).get("/collections/handbook/export", buffered=False)
        parts = answer.iter_encoded()
        next(parts)
        break_log()
        with pytest.raises(Exception, match="refused meanwhile"):
            list(parts)
        answer.close()


def test_the_log_is_closed_with_the_service(open_client):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with open_client() as client:
            client.post("/collections", json={"name": "handbook"})
    assert len(os.listdir("/proc/self/fd")) <= before + 5
