"""`rag-wrapper secrets` beside a running service, and where there is none."""

import json
import uuid

import pytest
from cryptography.fernet import Fernet

from tests.support.commands import files_holding, run_command
from tests.support.live import live_service
from tests.wrapper.audit.conftest import lines_of
from wrapper.secret_key import KEY_FILE, KeyFile


@pytest.fixture
def data_dir(app):
    return app.extensions["rag.service"].settings.data_dir


@pytest.fixture
def typed(client, service_behind):
    """(id of a connection, the secret that was typed into it)"""
    name, key = f"typed-{uuid.uuid4().hex[:8]}", f"sk-{uuid.uuid4().hex}"
    config = {"url": service_behind.url, "api_key": key}
    made = {"id": name, "type": "rag", "provider": "chromadb-wrapper", "config": config}
    assert client.post("/api/connections", json=made).status_code == 201
    yield name, key
    client.delete(f"/api/connections/{name}")


def test_the_list_names_connections_and_fields_and_no_secret(typed, data_dir):
    name, key = typed
    done = run_command("secrets", "list", data_dir=data_dir)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{name}\tapi_key\tstored\n" in done.stdout
    listed = json.loads(run_command("secrets", "list", "--json", data_dir=data_dir).stdout)["secrets"]
    assert {"connection": name, "field": "api_key", "opens": True} in listed
    assert key not in done.stdout + str(listed)


def test_a_rotation_beside_the_running_service_leaves_every_connection_usable(typed, data_dir, client, service_behind):
    name, key = typed
    before = KeyFile(data_dir)()
    done = run_command("secrets", "rotate", data_dir=data_dir)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"encrypted under a new key, which is in {data_dir / KEY_FILE}; the old key is gone\n")
    line = lines_of(data_dir / "audit")[-1]
    assert (line["method"], line["route"], line["key_id"], line["status"]) == ("COMMAND", "secrets rotate", None, 200)
    [after] = KeyFile(data_dir)()
    assert (after,) != before
    assert after not in done.stdout
    answer = client.get(f"/api/connections/{name}/collections")
    assert answer.status_code == 200, answer.text
    assert key in service_behind.requests[-1].decode()


def test_keys_of_the_settings_are_used_and_the_file_is_left_alone(typed, data_dir):
    name, _ = typed
    [old], new = KeyFile(data_dir)(), Fernet.generate_key().decode()
    foreign = run_command("secrets", "list", data_dir=data_dir, secret_key=new)
    assert foreign.returncode == 1, foreign.stderr
    assert f"{name}\tapi_key\tstored under another key\n" in foreign.stdout, foreign.stdout + foreign.stderr
    left = run_command("secrets", "rotate", data_dir=data_dir, secret_key=new)
    assert (left.returncode, f"{name}: api_key is stored under another key" in left.stderr) == (1, True)
    assert KeyFile(data_dir)() == (old,)


def test_a_directory_without_a_catalogue_is_refused(tmp_path):
    done = run_command("secrets", "rotate", data_dir=tmp_path)
    assert (done.returncode, "there is no catalogue" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_two_workers_go_on_through_a_rotation_and_a_restart(tmp_path, service_behind, processes):
    """The master makes the file before there are workers; nothing in clear is on the disk or in the log."""
    key, url = f"sk-{uuid.uuid4().hex}", f"{service_behind.url}"

    def opens(service, times):
        with service.session() as session:
            for _ in range(times):
                assert session.get(f"{service.url}/api/connections/typed/collections").status_code == 200
                assert key in service_behind.requests[-1].decode()

    with live_service(tmp_path, workers=2) as service:
        made_at = (service.data_dir / KEY_FILE).stat()
        assert made_at.st_mode & 0o777 == 0o600
        [first] = KeyFile(service.data_dir)()
        with service.session() as session:
            config = {"url": url, "api_key": key}
            made = {"id": "typed", "type": "rag", "provider": "chromadb-wrapper", "config": config}
            assert session.post(f"{service.url}/api/connections", json=made).status_code == 201
        opens(service, 8)
        assert run_command("secrets", "rotate", data_dir=service.data_dir).returncode == 0
        opens(service, 8)
    with live_service(tmp_path, workers=2) as service:
        [second] = KeyFile(service.data_dir)()
        assert second != first
        opens(service, 2)
        (service.data_dir / KEY_FILE).unlink()
        with service.session() as session:
            answer = session.get(f"{service.url}/api/connections/typed/collections")
        assert (answer.status_code, answer.json()["code"]) == (409, "configuration_error")
        assert "secret.key in the data directory is missing" in answer.json()["error"]
    with live_service(tmp_path) as service:
        # As after a restored backup without the key.
        with service.session() as session:
            answer = session.get(f"{service.url}/api/connections/typed/collections")
        assert answer.status_code == 409
        assert "'typed' cannot be used: api_key was stored under another key" in answer.json()["error"]
    assert files_holding(tmp_path, key) == []
