"""`/api/backups`, on services of their own."""

from contextlib import closing
from itertools import product

import pytest

from schemas.settings import WrapperSettings
from tests.support.apps import running_app
from tests.support.live import eventually
from wrapper.backups import service_backups
from wrapper.backups.making import only_backup
from wrapper.backups.restoring import restore

UNKNOWN = "rag-wrapper-20261125T184500Z-3f2a9c1d"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("backups")


@pytest.fixture(scope="module")
def app(tmp_path_factory, folder):
    with running_app(tmp_path_factory.mktemp("backed-up"), backup_dir=folder, backup_keep=2) as app:
        yield app


def done(client, backup_id):
    """Wait until a backup has ended, and return it."""
    return eventually(lambda: (found := client.get(f"/api/backups/{backup_id}").json)["state"] != "running" and found)


def made(client):
    begun = client.post("/api/backups", json={})
    assert begun.status_code == 202, begun.json
    assert begun.headers["Location"] == f"/api/backups/{begun.json['id']}"
    return done(client, begun.json["id"])


def test_a_backup_is_made_listed_downloaded_restored_and_deleted(client, filled, folder, tmp_path):
    filled([{"id": "a", "text": "kept", "embedding": [1.0, 0.0]}])
    backup = made(client)
    told = {"state": "done", "verified": True, "encrypted": False, "reason": "asked"}
    assert backup | told == backup
    assert backup["counts"]["documents"] >= 1
    assert client.get("/api/backups").json["backups"][0] == backup
    for path in ("/api/backups", f"/api/backups/{backup['id']}", f"/api/backups/{UNKNOWN}"):
        said = client.get(path).get_data(as_text=True)
        assert str(folder) not in said
        assert str(client.application.extensions["rag.service"].settings.data_dir) not in said
    with closing(client.get(f"/api/backups/{backup['id']}/content")) as content:
        assert (content.status_code, len(content.data)) == (200, backup["bytes"])
        assert content.headers["Content-Disposition"] == f"attachment; filename={backup['id']}.ragbackup"
        (tmp_path / "downloaded").write_bytes(content.data)
    with (tmp_path / "downloaded").open("rb") as file:
        restored = restore(file, WrapperSettings(data_dir=tmp_path / "other", disk_floor_mb=1), None, replace=False)
    assert restored.head.counts == backup["counts"]
    assert client.delete(f"/api/backups/{backup['id']}").json == {"status": "deleted", "id": backup["id"]}
    assert client.get(f"/api/backups/{backup['id']}").status_code == 404
    assert not (folder / f"{backup['id']}.ragbackup").exists()
    entries = [each for each in client.get("/api/audit").json["entries"] if each.get("subject") == backup["id"]]
    assert [(each["method"], each["route"], each["status"]) for each in entries] == [
        ("DELETE", "/api/backups/{id}", 200),
        ("GET", "/api/backups/{id}/content", 200),
        ("POST", "/api/backups", 202),
    ]


def test_older_ones_go(client, folder):
    ids = [made(client)["id"] for _ in range(3)]
    assert [each["id"] for each in client.get("/api/backups").json["backups"]] == ids[:0:-1]
    assert {file.stem for file in folder.iterdir()} == set(ids[1:])


def test_an_unknown_id_is_404(client):
    ids = (UNKNOWN, "nobody", "..", "%2e%2e%2fcatalog.sqlite", "x" * 300, "catalog", "%00")
    for backup_id, (method, end) in product(ids, (("GET", ""), ("GET", "/content"), ("DELETE", ""))):
        answer = client.open(f"/api/backups/{backup_id}{end}", method=method, json=None if method == "GET" else {})
        assert answer.status_code == 404, (backup_id, method, end)


def test_one_is_made_at_a_time(client, app):
    with only_backup(app.extensions["rag.service"].settings.data_dir):
        refused = client.post("/api/backups", json={})
    assert (refused.status_code, refused.json["code"]) == (409, "backup_under_way")


def test_a_failure_is_told_and_can_be_cleared(client, folder, monkeypatch):
    monkeypatch.setattr("wrapper.backups.making.verify", fails)
    failed = made(client)
    assert (failed["state"], failed["verified"]) == ("failed", False)
    assert failed["message"] == service_backups.UNEXPECTED
    assert not list(folder.glob("*.incomplete"))
    monkeypatch.undo()
    assert client.get("/api/backups").json["backups"][0]["id"] == failed["id"]
    assert client.delete(f"/api/backups/{failed['id']}").status_code == 200
    assert client.get(f"/api/backups/{failed['id']}").status_code == 404


def fails(*_):
    raise RuntimeError("/a/path of the machine")


def test_a_damaged_file_is_listed_as_not_verified(client, folder):
    damaged = folder / "rag-wrapper-20991125T184500Z-00000000.ragbackup"
    damaged.write_bytes(b"not one")
    try:
        found = client.get(f"/api/backups/{damaged.stem}").json
        assert (found["verified"], found["release"], found["bytes"]) == (False, None, 7)
    finally:
        damaged.unlink()


def test_without_a_folder_nothing_is_made(app, monkeypatch):
    backups = app.extensions["rag.service"].backups
    monkeypatch.setattr(backups, "_shelf", None)
    client = app.test_client()
    assert client.get("/api/backups").json == {"backups": []}
    refused = client.post("/api/backups", json={})
    assert (refused.status_code, refused.json["code"]) == (409, "no_backup_dir")
