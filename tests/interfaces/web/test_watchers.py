"""`/api/watchers` over HTTP."""

from __future__ import annotations

import pytest

REPORT = {
    "instance": "build-7:1",
    "state": "watching",
    "collection": "rag-context",
    "started_at": "2026-11-22T08:30:00Z",
    "files": 12,
    "failed": 1,
    "failures": [{"path": "old.txt", "reason": "is not UTF-8: byte 0 is wrong"}],
    "reason": None,
}


@pytest.fixture
def name(client):
    yield "docs of tests"
    client.delete("/api/watchers/docs of tests")


def test_a_report_is_kept_shown_and_forgotten(client, name):
    kept = client.put(f"/api/watchers/{name}", json=REPORT)
    assert kept.status_code == 200
    assert kept.json.items() >= REPORT.items()
    assert (kept.json["name"], kept.json["pending"], kept.json["last_change"]) == (name, 0, None)
    assert client.get(f"/api/watchers/{name}").json == kept.json
    assert kept.json in client.get("/api/watchers").json["watchers"]
    assert client.delete(f"/api/watchers/{name}").json == {"status": "deleted", "name": name}
    for method in (client.get, client.delete):
        answer = method(f"/api/watchers/{name}")
        assert (answer.status_code, answer.json["code"]) == (404, "watcher_not_found")


def test_a_second_instance_is_refused_while_the_first_reports(client, name):
    client.put(f"/api/watchers/{name}", json=REPORT)
    refused = client.put(f"/api/watchers/{name}", json=REPORT | {"instance": "build-8:1"})
    assert (refused.status_code, refused.json["code"]) == (409, "watcher_is_running")
    assert refused.json["details"]["instance"] == "build-7:1"
    client.put(f"/api/watchers/{name}", json=REPORT | {"state": "stopped"})
    assert client.put(f"/api/watchers/{name}", json=REPORT | {"instance": "build-8:1"}).status_code == 200


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"instance": ""}, "instance"),
        ({"instance": None}, "instance"),
        ({"state": "lost"}, "state"),
        ({"started_at": "yesterday"}, "started_at"),
        ({"started_at": "2026-11-22T08:30:00Z\n"}, "started_at"),
        ({"files": -1}, "files"),
        ({"pending": "3"}, "pending"),
        ({"failures": [{"path": "a", "reason": "b"}, {"path": 3, "reason": "b"}]}, "failures.1.path"),
        ({"failures": [{"path": "a", "reason": "b"}] * 21}, "failures"),
        ({"reason": "x" * 1001}, "reason"),
    ],
)
def test_a_bad_report_is_refused_by_field(client, change, field):
    answer = client.put("/api/watchers/never", json=REPORT | change)
    assert (answer.status_code, answer.json["details"]["field"]) == (400, field)
    assert client.get("/api/watchers/never").status_code == 404


def test_a_bad_name_is_refused(client):
    assert client.put("/api/watchers/a%0Ab", json=REPORT).status_code == 400
    assert client.get("/api/watchers/a%00b").status_code == 404
