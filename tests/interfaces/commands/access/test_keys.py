"""`rag-wrapper keys` on a data directory, and `rag-wrapper secrets` beside a running service and where there is none."""

import json
import shutil
import uuid

import pytest
from click.testing import CliRunner
from cryptography.fernet import Fernet

from interfaces.cli import main
from schemas.errors import AuditUnwritableError
from tests.support.commands import run_command
from tests.wrapper.audit.conftest import lines_of
from wrapper.audit.audit_log import AuditLog
from wrapper.audit.file_names import files_in
from wrapper.secret_key import KEY_FILE, KeyFile

UNWRITABLE = "The audit log cannot be written to"


@pytest.fixture
def data_dir(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def run(data_dir):
    return lambda *arguments: CliRunner().invoke(main, ["keys", *map(str, arguments), "--data-dir", str(data_dir)])


@pytest.fixture
def created(run):
    """The answer of `keys create`, on a data directory that was not there."""
    done = run("create", "ana", "--scope", "admin", "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def spoilt_log(data_dir, created):
    """A log whose folder was replaced by a file."""
    for file in (data_dir / "audit").iterdir():
        file.unlink()
    (data_dir / "audit").rmdir()
    (data_dir / "audit").write_text("")


def ids_in(run):
    return [each["id"] for each in json.loads(run("list", "--json").stdout)["keys"]]


def recorded(data_dir):
    [file] = files_in(data_dir / "audit")
    lines = (data_dir / "audit" / str(file)).read_text().splitlines()
    return [json.loads(line)["route"] for line in lines]


def test_a_key_is_made_rotated_and_revoked_with_a_line_for_each(run, created, data_dir, monkeypatch):
    rotated = json.loads(run("rotate", created["id"], "--json").stdout)
    revoked = run("revoke", created["id"], "--json")
    assert json.loads(revoked.stdout) == {"status": "revoked", "id": created["id"]}
    monkeypatch.setenv("RAG_API_KEY", rotated["key"])
    last = run("revoke", rotated["id"])
    assert (last.exit_code, "First make one with the scope admin" in last.stderr) == (2, True)
    assert recorded(data_dir) == ["keys create", "keys rotate", "keys revoke"]


def test_nothing_is_made_that_could_not_be_recorded_and_a_key_can_always_be_revoked(
    run, created, spoilt_log, monkeypatch
):
    for command in (("create", "bo", "--scope", "read"), ("rotate", created["id"])):
        done = run(*command)
        assert (done.exit_code, UNWRITABLE in done.stderr, done.stdout) == (2, True, "")
    assert ids_in(run) == [created["id"]]
    monkeypatch.setenv("RAG_API_KEY", "x" * 16)
    done = run("revoke", created["id"])
    assert done.exit_code == 0
    assert done.stderr.startswith(f"Warning: that the key is revoked is not recorded. {UNWRITABLE}")
    assert "revoked 20" in run("list").stdout


def test_a_key_is_shown_although_it_could_not_be_recorded(run, created, monkeypatch):
    def fail(*given, **options):
        raise AuditUnwritableError(f"{UNWRITABLE}: No space left on device")

    monkeypatch.setattr(AuditLog, "append", fail)
    done = run("create", "bo", "--scope", "read")
    _, made = ids_in(run)
    assert (done.exit_code, done.stdout[:12]) == (1, f"rw_{made}_")
    assert f"Error: Key {made} counts, but is not recorded. {UNWRITABLE}: No space left on device" in done.stderr


@pytest.mark.parametrize("command", ["keys list", "keys show x", "keys rotate x", "keys revoke x", "secrets rotate"])
def test_a_directory_without_a_catalogue_stays_as_it_is(data_dir, command):
    for at in range(3):
        if at == 1:
            data_dir.mkdir()
        if at == 2:
            (data_dir / "catalog.sqlite").touch()
        done = CliRunner(env={"RAG_DATA_DIR": str(data_dir)}).invoke(main, command.split())
        assert (done.exit_code, done.stderr) == (2, f"Error: RAG_DATA_DIR: there is no catalogue in {data_dir}\n")
        assert data_dir.exists() == (at > 0)
    assert [(each.name, each.stat().st_size) for each in data_dir.iterdir()] == [("catalog.sqlite", 0)]


def test_the_first_key_of_a_directory_names_it_and_one_that_was_there_is_not_called_new(run, data_dir):
    sentence = f"No data was in {data_dir}: it is a new data directory now."
    assert sentence in run("create", "ana", "--scope", "admin").stderr
    assert sentence not in run("create", "bo", "--scope", "read").stderr
    shutil.rmtree(data_dir)
    data_dir.mkdir()
    assert f"{data_dir} had no catalogue: it has a new one now." in run("create", "ana", "--scope", "admin").stderr


def test_the_first_key_is_an_administrator_s_unless_there_is_another_way_in(run, monkeypatch):
    done = run("create", "bo", "--scope", "manage", "--scope", "connect")
    assert (done.exit_code, "first make one with the scope admin" in done.stderr, ids_in(run)) == (2, True, [])
    monkeypatch.setenv("RAG_API_KEY", "x" * 16)
    assert run("create", "bo", "--scope", "read").exit_code == 0


def test_a_directory_that_cannot_be_made_is_one_sentence():
    done = CliRunner().invoke(main, ["keys", "create", "ana", "--scope", "admin", "--data-dir", "/proc/none"])
    assert (done.exit_code, done.stderr.count("\n"), "/proc/none" in done.stderr) == (2, 1, True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--expires", "999999w"), "is after the year 9999"),
        (("--limit", "documents=1", "--limit", "documents = 2"), "gives documents twice"),
        (("--limit", "nonsense=3"), "limits.nonsense"),
        (("--where", '{"a": 1}', "--scope", "write"), "can only read"),
        (("--where", '{"a": 1, "a": 2}'), "'a' is given twice"),
        (("--limit", "documents"), "'documents' is not NAME=NUMBER"),
    ],
)
def test_what_no_key_can_have_is_one_sentence(run, created, options, sentence):
    done = run("create", "bo", "--scope", "read", *options)
    assert done.exit_code == 2
    assert sentence in " ".join(done.stderr.split())
    assert ids_in(run) == [created["id"]]


def test_what_cannot_be_rotated_is_one_sentence(run, created):
    done = run("rotate", created["id"], "--grace", "31d")
    assert (done.exit_code, "grace_seconds must be at most 2592000" in done.stderr) == (2, True)
    assert ids_in(run) == [created["id"]]
    successor = json.loads(run("rotate", created["id"], "--json").stdout)["id"]
    done = run("rotate", created["id"])
    assert (done.exit_code, f"its successor is '{successor}'" in done.stderr) == (2, True)


@pytest.fixture
def service_dir(app):
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


def test_the_list_names_connections_and_fields_and_no_secret(typed, service_dir):
    name, key = typed
    done = run_command("secrets", "list", data_dir=service_dir)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{name}\tapi_key\tstored\n" in done.stdout
    listed = json.loads(run_command("secrets", "list", "--json", data_dir=service_dir).stdout)["secrets"]
    assert {"connection": name, "field": "api_key", "opens": True} in listed
    assert key not in done.stdout + str(listed)


def test_a_rotation_beside_the_running_service_leaves_every_connection_usable(
    typed, service_dir, client, service_behind
):
    name, key = typed
    before = KeyFile(service_dir)()
    done = run_command("secrets", "rotate", data_dir=service_dir)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(
        f"encrypted under a new key, which is in {service_dir / KEY_FILE}; the old key is gone\n"
    )
    line = lines_of(service_dir / "audit")[-1]
    assert (line["method"], line["route"], line["key_id"], line["status"]) == ("COMMAND", "secrets rotate", None, 200)
    [after] = KeyFile(service_dir)()
    assert (after,) != before
    assert after not in done.stdout
    answer = client.get(f"/api/connections/{name}/collections")
    assert answer.status_code == 200, answer.text
    assert key in service_behind.requests[-1].decode()


def test_keys_of_the_settings_are_used_and_the_file_is_left_alone(typed, service_dir):
    name, _ = typed
    [old], new = KeyFile(service_dir)(), Fernet.generate_key().decode()
    foreign = run_command("secrets", "list", data_dir=service_dir, secret_key=new)
    assert foreign.returncode == 1, foreign.stderr
    assert f"{name}\tapi_key\tstored under another key\n" in foreign.stdout, foreign.stdout + foreign.stderr
    left = run_command("secrets", "rotate", data_dir=service_dir, secret_key=new)
    assert (left.returncode, f"{name}: api_key is stored under another key" in left.stderr) == (1, True)
    assert KeyFile(service_dir)() == (old,)
