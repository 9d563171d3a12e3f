"""Lines of the audit log for tools, MCP, uploads and their jobs, and streamed chats."""

import pytest
from flask.testing import FlaskClient

from tests.interfaces.access.conftest import new_lines
from tests.support.contract import Contract
from tests.support.live import eventually
from wrapper.web.audited import route_of


def told(line):
    return (line["method"], line["route"], line.get("tool"), line["scope"], line["count"], line["status"])


@pytest.mark.slow
def test_an_upload_and_each_of_its_files_have_a_line(client, lines, collection):
    answer = client.post(
        f"/api/documents?collection={collection}",
        data=b"# Backups\n\nEvery night.",
        headers={"X-Filename": "a.md", "Content-Type": "text/markdown"},
    )
    eventually(lambda: client.get(f"/api/jobs/{answer.json['job']['id']}").json["status"] == "done")
    upload, stored = lines()
    assert told(upload) == ("POST", "/api/documents", None, "write", None, 202)
    assert told(stored) == ("POST", "job", None, "write", 1, 201)
    assert (upload["collection"], stored["collection"], stored["address"]) == (collection, collection, None)


@pytest.mark.slow
def test_an_erasure_says_of_which_collection_and_how_many(client, lines, collection):
    client.post("/collections", json={"name": collection})
    documents = [{"id": name, "text": f"The text of {name}.", "embedding": [1, 0]} for name in ("a", "b")]
    client.post(f"/collections/{collection}/documents", json={"documents": documents})
    lines()
    refused = client.post("/api/erase", json={"collection": collection, "where": {"no": {"$exists": False}}})
    assert refused.json["code"] == "matches_everything"
    assert client.post("/api/erase", json={"collection": collection, "document": "a"}).status_code == 200
    assert client.post("/api/erase", json={"user": "user:nobody"}).status_code == 200
    assert [(line["collection"], line["count"], line["status"], line.get("subject")) for line in lines()] == [
        (collection, None, 400, None),
        (collection, 1, 200, None),
        (None, 0, 200, "user:nobody"),
    ]


@pytest.mark.slow
def test_a_streamed_chat_has_its_line_at_its_end(app_of_models):
    app = app_of_models()
    lines = new_lines(app)
    asked = {"message": "What runs at night?", "stream": True}
    app.test_client().post("/api/chat", json=asked)
    answer = FlaskClient(app).post("/api/chat", json=asked, buffered=False)
    parts = answer.iter_encoded()
    next(parts)
    (whole,) = lines()
    assert (told(whole), whole.get("cut")) == (("POST", "/api/chat", None, "chat", None, 200), None)
    answer.close()
    (left,) = lines()
    assert (told(left), left["cut"]) == (("POST", "/api/chat", None, "chat", None, 200), True)


def test_the_entries_are_listed_and_filtered(client, collection):
    client.post("/collections", json={"name": collection})
    client.delete(f"/collections/{collection}")
    answer = client.get("/api/audit", query_string={"collection": collection, "since": "1h"}).json
    assert [(each["method"], each["status"]) for each in answer["entries"]] == [("DELETE", 200), ("POST", 201)]
    assert client.get(f"/api/audit?collection={collection}&limit=1").json["entries"] == answer["entries"][:1]
    time = answer["entries"][0]["time"]
    assert client.get("/api/audit", query_string={"since": time, "limit": 1000}).json["entries"]
    assert client.get("/api/audit?since=2999-01-01").json == {"entries": []}
    assert client.get("/api/audit?since=2999-01-01T00:00:00+02:00&key=nobody").json == {"entries": []}


@pytest.mark.parametrize("since", ["yesterday", "7y", "-1d", "2026-13-01", "99999d99", "7d ago", "٣d"])
def test_a_wrong_since_is_refused_by_name(client, since):
    answer = client.get("/api/audit", query_string={"since": since})
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_field")
    assert answer.json["details"]["field"] == "since"


def test_every_route_is_named_as_in_the_description(app):
    described = {path for path, _ in Contract.load().described()}
    assert {route_of(rule.rule) for rule in app.url_map.iter_rules()} == described
