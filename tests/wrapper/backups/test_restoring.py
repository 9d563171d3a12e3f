"""What a restore changes, and when it changes nothing."""

import json
import os
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import make_url

from interfaces.commands.access.recorded import record, recorded_commands
from schemas.errors import ConfigurationError, ConflictError
from schemas.settings import WrapperSettings
from tests.support.postgres import ROLE
from tests.wrapper.backups.conftest import BOTH, KEY, POSTGRESQL, Place, listing
from wrapper.backups import mounts, restoring
from wrapper.backups.archive import ArchiveReader, ArchiveWriter
from wrapper.backups.before_migration import keep_before_migration
from wrapper.backups.moves import complete_moves
from wrapper.backups.places import ASIDE, MOVES, STAGED
from wrapper.backups.sealing import DamagedArchiveError, WrongKeyError
from wrapper.backups.shelf import Shelf
from wrapper.catalog_choice import catalog_access
from wrapper.engine.data_directory_lock import acquire


@contextmanager
def unchanged(place):
    """Check that a block changes neither files nor rows."""
    before, rows = listing(place.data_dir), place.rows()
    yield
    assert (listing(place.data_dir), place.rows()) == (before, rows)


def stopping_after(number):
    """Return what renames so many files, and then is interrupted."""
    rename, left = os.rename, iter(range(number))

    def counted(source, target):
        if next(left, None) is None:
            raise KeyboardInterrupt
        rename(source, target)

    return counted


@pytest.fixture
def may_make_schemas(request, place):
    """Let the role of the catalogue make schemas, where it is on PostgreSQL."""
    if url := place.settings.catalog_url:
        with request.getfixturevalue("postgres")._connection() as connection:
            connection.execute(f"GRANT CREATE ON DATABASE {make_url(url).database} TO {ROLE}")


@POSTGRESQL
def test_a_role_that_may_make_no_schema_is_told_and_loses_nothing(place, tmp_path):
    file = place.back_up(tmp_path / "backups")
    with unchanged(place), pytest.raises(ConfigurationError, match="GRANT CREATE ON DATABASE"):
        place.restore(file, replace=True)


def test_a_directory_that_is_not_empty_stays_as_it_is(place, tmp_path):
    file = place.back_up(tmp_path / "backups")
    with unchanged(place), pytest.raises(ConflictError, match="--replace") as caught:
        place.restore(file)
    assert caught.value.code == "not_empty"


@BOTH
def test_replacing_moves_aside_and_deletes_nothing(place, tmp_path, may_make_schemas):
    file = place.back_up(tmp_path / "backups")
    before, rows = listing(place.data_dir), place.rows()
    place.fill(["later"])
    done = place.restore(file, replace=True)
    assert place.rows() == rows
    after = listing(place.data_dir)
    aside = listing(done.aside)
    assert before.keys() - {"catalog.sqlite"} <= aside.keys()
    assert not (place.data_dir / "chroma").exists()
    assert done.aside.parent == place.data_dir
    assert after["secret.key"] == before["secret.key"]
    if place.settings.catalog_url:
        other = replace(
            place.settings,
            catalog_url=place.settings.catalog_url.split("?")[0] + f"?options=-csearch_path%3D{done.aside_schema}",
        )
        assert [row[1] for row in Place(other).rows()[0]] == ["a", "b", "c", "later"]
    else:
        assert "catalog.sqlite" in aside


@BOTH
def test_a_catalogue_alone_leaves_the_other_files_where_they_are(place, tmp_path, may_make_schemas):
    """The next start deletes originals that the restored catalogue does not know, also those since the upgrade: they
    are kept from it by other names."""
    file = place.back_up(tmp_path / "backups", whole=False)
    rows = place.rows()
    place.fill(["later"])
    place.write("originals/c0ffee/later", b"came later")
    before = listing(place.data_dir)
    done = place.restore(file, replace=True)
    assert place.rows() == rows
    after = listing(place.data_dir)
    stays = {name for name in before if name.startswith(("originals", "uploads", "files", "audit", "secret.key"))}
    assert {name: after[name] for name in stays} == {name: before[name] for name in stays}
    assert not (place.data_dir / "chroma").exists()
    assert (done.aside / "chroma" / "chroma.sqlite3").exists()
    for name in ("originals/c0ffee/later", f"uploads/{'ab' * 16}/1", "secret.key"):
        (place.data_dir / name).unlink()
        assert (done.aside / name).read_bytes() == before[name]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may leave files of its own in a directory of others")
def test_root_leaves_nothing_that_the_owner_cannot_use(place, tmp_path):
    file = place.back_up(tmp_path / "backups")
    for path in (place.data_dir, *place.data_dir.rglob("*")):
        os.chown(path, 12345, 12345)
    (place.data_dir / "service.lock").unlink(missing_ok=True)
    place.restore(file, replace=True)
    with recorded_commands(place.settings) as audit:
        record(audit, "restore", "one")
    assert {path.name for path in place.data_dir.rglob("*") if path.stat().st_uid != 12345} == set()
    assert (place.data_dir / "service.lock").exists()


def test_a_catalogue_on_another_disk_is_told_and_stays(place, tmp_path, another_disk):
    file = place.back_up(tmp_path / "backups")
    url = f"sqlite:///{another_disk}/mine.sqlite"
    other = Place(replace(place.settings, data_dir=tmp_path / "other", catalog_url=url))
    other.data_dir.mkdir()
    other.fill(["mine"])
    rows = other.rows()
    with pytest.raises(ConflictError, match="another disk"):
        other.restore(file, replace=True)
    complete_moves(other.settings)
    assert other.rows() == rows
    assert not list(other.data_dir.glob("re*"))


def test_a_mount_is_told_and_stays(place, tmp_path, monkeypatch):
    """As the system lists it: to mount something is not for tests."""
    file = place.back_up(tmp_path / "backups")
    listed = tmp_path / "mountinfo"
    listed.write_text(f"1 0 8:1 / / rw - ext4 x rw\n2 1 8:1 / {place.data_dir}/originals rw - ext4 x rw\n")
    monkeypatch.setattr(mounts, "MOUNTS", listed)
    said = "originals cannot be moved aside into the data directory, it is a mount"
    with unchanged(place), pytest.raises(ConflictError, match=said):
        place.restore(file, replace=True)


def test_a_running_service_is_told(place, tmp_path):
    file = place.back_up(tmp_path / "backups")
    lock = acquire(place.data_dir, description={"command": "rag-wrapper", "address": "http://127.0.0.1:5006"})
    try:
        with pytest.raises(ConfigurationError, match="in use"):
            place.restore(file, replace=True)
    finally:
        lock.release()


@POSTGRESQL
def test_a_service_on_the_same_database_is_told(place, tmp_path):
    file = place.back_up(tmp_path / "backups")
    lead = catalog_access(place.settings, makes=False).leadership()
    assert lead.acquire()
    try:
        with unchanged(place), pytest.raises(ConfigurationError, match="a service works with this database"):
            Place(replace(place.settings, data_dir=tmp_path / "another")).restore(file, replace=True)
    finally:
        lead.release()


def test_a_wrong_key_changes_nothing(place, new_place, tmp_path):
    file = place.back_up(tmp_path / "backups", key=KEY)
    other = new_place("other")
    for key in (None, bytes(32)):
        with pytest.raises(WrongKeyError):
            other.restore(file, key)
    assert not other.data_dir.exists()


@BOTH
def test_a_damaged_file_changes_nothing(place, new_place, tmp_path):
    file, other = place.back_up(tmp_path / "backups"), new_place("other")
    whole = file.read_bytes()
    for part in (0.3, 0.6, 0.9):
        content = bytearray(whole)
        content[int(len(content) * part)] ^= 255
        file.write_bytes(content)
        with pytest.raises(DamagedArchiveError):
            other.restore(file)
        assert listing(other.data_dir) == {}, part
    other.fill(["mine"])  # the database is empty, too
    assert [row[1] for row in other.rows()[0]] == ["mine"]


@BOTH
def test_a_newer_schema_and_another_kind_of_catalogue_are_refused_with_a_sentence(
    place, new_place, tmp_path, monkeypatch
):
    file = place.back_up(tmp_path / "backups")
    url = "" if place.settings.catalog_url else "postgresql://nobody@127.0.0.1:1/none"
    with pytest.raises(ConflictError, match="export"):
        Place(WrapperSettings(data_dir=tmp_path / "other", catalog_url=url)).restore(file)
    monkeypatch.setattr(restoring, "NEWEST", 3)
    with pytest.raises(ConflictError, match="this release knows 3"):
        new_place("other").restore(file)


def test_a_catalogue_elsewhere_is_restored_there(place, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    url = f"sqlite:///{tmp_path}/elsewhere/mine.sqlite"
    other = Place(WrapperSettings(data_dir=tmp_path / "other", catalog_url=url, disk_floor_mb=1))
    other.restore(place.back_up(tmp_path / "backups"))
    assert other.rows() == place.rows()
    assert not (other.data_dir / "catalog.sqlite").exists()


def test_the_next_start_removes_the_copy_that_a_killed_restore_left_beside_a_catalogue_elsewhere(tmp_path):
    settings = WrapperSettings(data_dir=tmp_path / "data", catalog_url=f"sqlite:///{tmp_path}/elsewhere/mine.sqlite")
    (tmp_path / "elsewhere").mkdir()
    (settings.data_dir / STAGED).mkdir(parents=True)
    left = restoring._beside(tmp_path / "elsewhere" / "mine.sqlite", settings.data_dir / STAGED, settings.data_dir)
    left.write_bytes(b"plain")
    complete_moves(settings)
    assert list((tmp_path / "elsewhere").iterdir()) == list(settings.data_dir.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("is_taken", [False, True])
def test_a_restore_that_was_interrupted_is_completed(place, tmp_path, is_taken):
    """Whatever of the renaming was done, the rest is done later, and doing it twice changes nothing. What has taken a
    place meanwhile gives way and stays: an earlier release recorded a command in a log of its own in a half-restored
    directory."""
    file, rows = place.back_up(tmp_path / "backups"), place.rows()
    log = (place.data_dir / "audit" / "audit-2026-11-25-0001.jsonl").read_bytes()
    place.fill(["later"])
    for stop_after in range(40):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(restoring.os, "rename", stopping_after(stop_after))
            try:
                place.restore(file, replace=True)
            except KeyboardInterrupt:
                assert json.loads((place.data_dir / MOVES).read_text())
            else:
                assert stop_after > 5
                break
        with pytest.raises(ConfigurationError, match="interrupted"):
            keep_before_migration(place.settings, catalog_access(place.settings))
        with pytest.raises(ConfigurationError, match="interrupted"):
            place.back_up(tmp_path / "backups")
        was_there = (place.data_dir / "audit").exists()
        if is_taken:
            place.write("audit/mine", str(stop_after).encode())
        complete_moves(place.settings)
        complete_moves(place.settings)
        assert place.rows() == rows
        assert (place.data_dir / "audit" / "audit-2026-11-25-0001.jsonl").read_bytes() == log
        assert not (place.data_dir / STAGED).exists()
        if is_taken:
            (kept,) = [each for each in place.data_dir.rglob("audit/mine") if each.read_text() == str(stop_after)]
            assert was_there or ASIDE in str(kept)
        place.fill(["later"])
    else:
        raise AssertionError("the restore never came to its end")


@pytest.mark.parametrize("is_committed", [False, True])
@BOTH
def test_a_restore_that_is_killed_beside_the_commit_of_its_database_happens_wholly_or_not(
    place, tmp_path, monkeypatch, may_make_schemas, is_committed
):
    """Files and database agree after the next start, whichever of the two was first to be done."""
    file, restored_rows = place.back_up(tmp_path / "backups"), place.rows()
    place.fill(["later"])
    place.write("originals/c0ffee/later", b"of what came later")
    before, rows = listing(place.data_dir), place.rows()

    def killed_after(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    def killed_before(data_dir, access, **how):
        if (data_dir / MOVES).exists():
            raise KeyboardInterrupt
        real(data_dir, access, **how)

    name = "complete_in" if is_committed else "write_down"
    real = getattr(restoring, name)
    monkeypatch.setattr(restoring, name, killed_before if is_committed else killed_after)
    with pytest.raises(KeyboardInterrupt):
        place.restore(file, replace=True)
    monkeypatch.undo()
    assert (place.data_dir / MOVES).exists()
    complete_moves(place.settings)
    complete_moves(place.settings)
    assert not (place.data_dir / MOVES).exists()
    assert not (place.data_dir / STAGED).exists()
    if is_committed or not place.settings.catalog_url:  # a file is there when it has its name
        assert place.rows() == restored_rows
        assert not (place.data_dir / "originals" / "c0ffee" / "later").exists()
    else:
        assert place.rows() == rows
        assert listing(place.data_dir) == before
    assert all("restore_under_way" not in name for name in members_of(place.back_up(tmp_path / "backups")))


@POSTGRESQL
def test_a_backup_beside_the_restore_of_another_service_can_be_restored(place, new_place, tmp_path, monkeypatch):
    """The one of a service on the same database, while the files of the other's restore are not in their places."""
    killed = new_place("killed")
    monkeypatch.setattr(restoring, "complete_in", lambda data_dir, _, **how: (data_dir / MOVES).exists() and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        killed.restore(place.back_up(tmp_path / "backups"))
    monkeypatch.undo()
    beside = Place(replace(killed.settings, data_dir=tmp_path / "beside"))
    beside.data_dir.mkdir()
    file, other = beside.back_up(tmp_path / "backups"), new_place("other")
    other.restore(file)
    assert other.rows() == place.rows()


@POSTGRESQL
def test_a_restore_into_a_database_waits_for_that_database(place, new_place, tmp_path, monkeypatch, may_make_schemas):
    file = place.back_up(tmp_path / "backups")
    real = restoring.write_down
    monkeypatch.setattr(restoring, "write_down", lambda *told: (real(*told), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        place.restore(file, replace=True)
    nobody, another = "postgresql://nobody@127.0.0.1:1/none", new_place("another").settings.catalog_url
    for url, said in ((nobody, "a restore was interrupted"), ("", "set it to that"), (another, "or restore again")):
        with pytest.raises(ConfigurationError, match=f"^RAG_CATALOG_URL: .*{said}") as caught:
            complete_moves(replace(place.settings, catalog_url=url))
        assert caught.value.details["field"] == "RAG_CATALOG_URL"
        assert (place.data_dir / MOVES).exists()
    monkeypatch.undo()
    elsewhere = Place(replace(place.settings, catalog_url=another))
    elsewhere.restore(file, replace=True)  # the database of the restore may be lost for good
    assert not (place.data_dir / MOVES).exists()
    assert elsewhere.rows() == place.rows()


def members_of(file):
    with file.open("rb") as opened:
        return [name for name, _ in ArchiveReader(opened, None).entries()]


def test_what_is_restored_elsewhere_goes_on_with_the_backups_from_before(place, new_place, tmp_path):
    """A service and a restore of it that is tried out need a folder each."""
    file, other = place.back_up(tmp_path / "backups"), new_place("other")
    other.restore(file)
    shelf = Shelf(file.parent)
    assert shelf.prune(shelf.find(other.back_up(file.parent).stem).head, 1) == [file.stem]


def test_the_lock_of_an_audit_log_in_an_archive_is_not_restored(place, new_place, tmp_path):
    """Restored files of the log are finished, and nobody but root could open such a lock."""
    other = new_place("other")
    other.restore(rewritten(place.back_up(tmp_path / "backups"), tmp_path / "older", "audit/audit.lock"))
    assert [each.name for each in (other.data_dir / "audit").iterdir()] == ["audit-2026-11-25-0001.jsonl"]


def rewritten(file, to, *names):
    """Write an archive again, to another file: with a member of each of these names, and without its own of these."""
    with to.open("wb") as written, file.open("rb") as opened:
        reader = ArchiveReader(opened, None)
        writer = ArchiveWriter(written, reader.head, None)
        for name, content in reader.entries():
            if name not in names:
                writer.add(name, content)
        for name in names:
            writer.add(name, iter([b"x"]))
        writer.finish()
    return to


def test_members_of_one_name_and_those_that_are_none_are_refused(place, new_place, tmp_path):
    """An archive that was made to write other files than a backup has."""
    file, other = place.back_up(tmp_path / "backups"), new_place("other")
    twice = (("secret.key",) * 2, ("originals/a/b",) * 2, ("originals/a", "originals/a/b"))
    none = (("service.lock",), ("chroma/chroma.sqlite3",), ("restore-under-way",), ("engine.json",))
    for names in (*twice, *none):
        with pytest.raises(DamagedArchiveError, match="have one name" if names in twice else None):
            other.restore(rewritten(file, tmp_path / "hostile", *names))
        assert listing(other.data_dir) == {}, names
