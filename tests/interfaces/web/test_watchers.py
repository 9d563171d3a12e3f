"""`/api/watchers` over HTTP."""

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
    second = REPORT | {"instance": "build-8:1"}
    client.put(f"/api/watchers/{name}", json=REPORT)
    refused = client.put(f"/api/watchers/{name}", json=second)
    assert (refused.status_code, refused.json["code"]) == (409, "watcher_is_running")
    assert refused.json["details"]["instance"] == "build-7:1"
    client.put(f"/api/watchers/{name}", json=REPORT | {"state": "stopped"})
    assert client.put(f"/api/watchers/{name}", json=second).status_code == 200
    assert client.put("/api/watchers/a%0Ab", json=REPORT).status_code == 400
