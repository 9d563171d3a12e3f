"""`rag-wrapper backup` and `restore`, on data directories without a service and beside one."""

import base64
import json
import os
import signal
import sqlite3
import subprocess

import pytest
from click.testing import CliRunner

from interfaces.cli import main
from schemas.settings import WrapperSettings
from tests.interfaces.conftest import environ
from tests.support.commands import RUN_MAIN, run_command
from tests.support.live import PATIENCE_SECONDS, eventually
from wrapper.backups.archive import ArchiveWriter, read_head
from wrapper.backups.making import opened_maker
from wrapper.backups.manifest import Reason

KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory):
    """(data directory, its one backup); no test changes them."""
    data_dir, folder = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("backups") / "new"
    assert run_command("keys", "create", "mine", "--scope", "admin", data_dir=data_dir).returncode == 0
    done = run_command("backup", folder, data_dir=data_dir)
    assert done.returncode == 0, done.stderr
    (file,) = folder.iterdir()
    assert done.stdout.splitlines() == [str(file)]
    assert "1 keys" in done.stderr
    assert "not encrypted" in done.stderr
    entries = json.loads(run_command("audit", "--json", data_dir=data_dir).stdout)["entries"]
    assert (entries[0]["route"], entries[0]["subject"], entries[0]["method"]) == ("backup", file.stem, "COMMAND")
    return data_dir, file


@pytest.fixture
def run_here(monkeypatch):
    """`run_here(*arguments, **settings)`: runs a command in this process, which is quicker than `run_command`."""

    def run_here(*arguments, **settings):
        for name in [name for name in os.environ if name.startswith("RAG_")]:
            monkeypatch.delenv(name)
        for name, value in settings.items():
            monkeypatch.setenv(f"RAG_{name.upper()}", str(value))
        return CliRunner().invoke(main, [str(each) for each in arguments], prog_name="rag-wrapper")

    return run_here


def test_a_backup_is_restored_with_its_keys(backed_up, tmp_path, run_here):
    data_dir, file = backed_up
    done = run_command("restore", file, "--data-dir", tmp_path / "other")
    assert (done.returncode, done.stderr) == (0, "")
    assert file.stem in done.stdout
    first, second = (
        json.loads(run_here("keys", "list", "--json", data_dir=where).stdout)
        for where in (data_dir, tmp_path / "other")
    )
    assert first == second
    assert len(first["keys"]) == 1


def test_what_is_not_in_a_copy_of_the_catalogue_alone_is_told(backed_up, tmp_path, run_here):
    data_dir, _ = backed_up
    copy = tmp_path / "copy.ragbackup"
    with opened_maker(WrapperSettings(data_dir=data_dir, disk_floor_mb=1), None) as maker:
        maker.make(copy, Reason.MIGRATION, whole=False)
    done = run_here("restore", copy, "--data-dir", tmp_path / "other")
    assert done.exit_code == 0
    assert not (tmp_path / "other" / "secret.key").exists()
    assert "secret.key" in done.stdout
    assert "rag-wrapper secrets list" in done.stdout
    told = json.loads(run_here("restore", copy, "--data-dir", tmp_path / "third", "--json").stdout)
    assert "secret.key" in told["warnings"][0]


def test_that_other_services_have_files_of_their_own_is_told(tmp_path, run_here, postgres):
    """Services on one PostgreSQL share the catalogue, and not their data directories."""
    with postgres.catalogue(empty=True) as url:
        settings = {"catalog_url": url, "data_dir": tmp_path / "data"}
        assert run_here("keys", "create", "mine", "--scope", "admin", **settings).exit_code == 0
        done = run_here("backup", tmp_path / "one.ragbackup", **settings)
        assert done.exit_code == 0, done.stderr
        assert "files it has those of one data directory, 0 originals among them" in done.stderr
    with postgres.catalogue(empty=True) as url:
        put_back = run_here("restore", tmp_path / "one.ragbackup", catalog_url=url, data_dir=tmp_path / "other")
        assert "other services on the database need backups of their own" in put_back.stdout


def test_a_key_encrypts_and_is_needed_again_and_refuses_what_is_plain(backed_up, tmp_path, run_here):
    data_dir, plain = backed_up
    file, key = tmp_path / "one.ragbackup", tmp_path / "key"
    key.write_text(f"{KEY}\n")
    key.chmod(0o600)
    done = run_here("backup", file, "--key-file", key, "--json", data_dir=data_dir)
    told = json.loads(done.stdout)
    assert (told["encrypted"], told["verified"], told["file"], done.stderr) == (True, True, str(file), "")
    for given, settings, said in ((file, {}, "give its key"), (plain, {"backup_key": KEY}, "--unencrypted")):
        refused = run_here("restore", given, "--data-dir", tmp_path / "other", **settings)
        assert (refused.exit_code, refused.stdout, said in refused.stderr) == (2, "", True)
    assert not (tmp_path / "other").exists()
    assert run_here("restore", file, "--data-dir", tmp_path / "other", backup_key=KEY).exit_code == 0
    assert run_here("restore", plain, "--data-dir", tmp_path / "third", "--unencrypted", backup_key=KEY).exit_code == 0


@pytest.mark.parametrize("named", ["--key-file", "RAG_BACKUP_KEY_FILE"])
def test_a_key_that_every_user_can_read_is_warned_of(backed_up, tmp_path, run_here, named):
    data_dir, _ = backed_up
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "key").chmod(0o644)
    option, setting = ["--key-file", tmp_path / "key"], {"backup_key_file": tmp_path / "key"}
    given, settings = (option, {}) if named == "--key-file" else ([], setting)
    done = run_here("backup", tmp_path / "backups", *given, data_dir=data_dir, **settings)
    (file,) = (tmp_path / "backups").iterdir()
    put_back = run_here("restore", file, "--data-dir", tmp_path / "other", *given, **settings)
    for each in (done, put_back):
        assert each.exit_code == 0
        assert f"Warning: {named}: the key of backups is open to every user" in each.stderr


def test_what_a_forged_file_says_does_nothing_to_the_terminal(backed_up, tmp_path, run_here):
    """Such a name of a table is shown by SQLite's own check."""
    _, file = backed_up
    with sqlite3.connect(tmp_path / "hostile.sqlite") as connection:
        connection.execute('CREATE TABLE "\x1b[2J" (a NOT NULL)')
        connection.execute('INSERT INTO "\x1b[2J" VALUES (1)')
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = 'CREATE TABLE \"\x1b[2J\" (a NOT NULL, b NOT NULL)'")
    connection.close()
    with file.open("rb") as opened, (tmp_path / "hostile.ragbackup").open("wb") as made:
        writer = ArchiveWriter(made, read_head(opened)[0], None)
        writer.add("catalog.sqlite", iter([(tmp_path / "hostile.sqlite").read_bytes()]))
        writer.finish()
    done = run_here("restore", tmp_path / "hostile.ragbackup", "--data-dir", tmp_path / "other")
    assert (done.exit_code, "\x1b" in done.stdout + done.stderr) == (2, False)
    assert "\N{REPLACEMENT CHARACTER}[2J" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        (["backup", "{tmp}/one.ragbackup", "--keep", "1"], {}, "want a DIR"),
        (["backup", "{tmp}/x", "--schedule", "soon"], {}, "must be a span"),
        (["backup", "{tmp}/x"], {"backup_key": "short"}, "RAG_BACKUP_KEY must be 32 random bytes"),
        (["backup", "{tmp}/x"], {"backup_key": KEY, "backup_key_file": "/dev/null"}, "both set"),
        (["backup", "{tmp}/x"], {"disk_floor_mb": 10**9}, "RAG_DISK_FLOOR_MB"),
        (["backup", "{tmp}/x", "--data-dir", "{tmp}/nowhere"], {}, "no catalogue"),
        (["backup", "/proc/self/x/one.ragbackup"], {}, "FILE: the backup could not be written"),
        (["backup", "{data}"], {}, "DIR: the data directory is the service's own"),
        (["backup", "{data}/replaced-1/one.ragbackup"], {}, "FILE: the folder replaced-1"),
        (["restore", "{file}", "--data-dir", "/proc/self/x"], {}, "RAG_DATA_DIR"),
        (["restore", "{data}/catalog.sqlite", "--data-dir", "{tmp}/other"], {}, "no backup of rag-wrapper"),
        (["restore", "{tmp}/nothing"], {}, "does not exist"),
        (["backup", "{tmp}/x"], {"backup_every": "1h"}, "RAG_BACKUP_DIR"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_sentence(backed_up, tmp_path, run_here, arguments, settings, said):
    data_dir, file = backed_up
    before = sorted(data_dir.rglob("*"))
    filled = [each.format(tmp=tmp_path, data=data_dir, file=file) for each in arguments]
    done = run_here(*filled, **{"data_dir": data_dir, **settings})
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("**/*.incomplete*"))
    assert {*data_dir.rglob("*")} - {*before} <= {data_dir / "backup.lock"}


def test_folders_that_are_made_are_for_their_owner_alone(backed_up, tmp_path, run_here):
    data_dir, file = backed_up
    before = os.umask(0)
    try:
        assert run_here("backup", tmp_path / "a" / "b", data_dir=data_dir).exit_code == 0
        assert run_here("backup", tmp_path / "c" / "d" / "one.ragbackup", data_dir=data_dir).exit_code == 0
        assert run_here("restore", file, "--data-dir", tmp_path / "e" / "f").exit_code == 0
    finally:
        os.umask(before)
    for name in ("a", "a/b", "c", "c/d", "e", "e/f"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700, name


@pytest.mark.slow
def test_a_schedule_makes_them_until_it_is_stopped(backed_up, tmp_path):
    data_dir, _ = backed_up
    folder = tmp_path / "scheduled"
    process = subprocess.Popen(
        [*RUN_MAIN, "backup", str(folder), "--schedule", "1s", "--keep", "1"],
        env=environ(data_dir=data_dir, disk_floor_mb=1),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        first = eventually(lambda: list(folder.glob("*.ragbackup")))
        # Older ones go after the newer one is there.
        eventually(lambda: len(now := list(folder.glob("*.ragbackup"))) == 1 and now != first)
    finally:
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, said
    assert [file.name for file in folder.iterdir() if file.name.startswith(".")] == []


def test_it_works_beside_the_running_service(live, tmp_path):
    done = run_command("backup", tmp_path, "--json", data_dir=live.data_dir, disk_floor_mb=1)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    refused = run_command("restore", told["file"], "--replace", data_dir=live.data_dir)
    assert refused.returncode == 2
    assert "in use" in refused.stderr
