"""What a backup holds, and when it counts."""

import errno
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path

import orjson
import pytest

from schemas.errors import ConfigurationError, ConflictError, DiskFloorError
from tests.wrapper.backups.conftest import KEY, ORIGINAL
from wrapper.audit.audit_log import FOLDER
from wrapper.audit.file_names import FileName
from wrapper.backups import files, making, verifying
from wrapper.backups.archive import ArchiveReader, ArchiveWriter, read_head
from wrapper.backups.making import BackupMaker, BackupUnderWayError, only_backup, opened_maker, sweep_killed
from wrapper.backups.manifest import Reason, dump_head, load_head
from wrapper.backups.places import AUDIT, HELD, SCRATCH
from wrapper.backups.restoring import restore
from wrapper.backups.sealing import DamagedArchiveError
from wrapper.backups.shelf import Shelf
from wrapper.catalog.postgres.copies import CONSTRAINTS, INDEXES, TABLES, WORD_RULES
from wrapper.catalog_choice import catalog_access

FILES = {
    "catalogue.id",
    "secret.key",
    f"originals/c0ffee/{ORIGINAL}",
    "uploads/home",
    f"uploads/{'ab' * 16}/1",
    f"files/{'cd' * 16}/0",
    "audit/audit-2026-11-25-0001.jsonl",
}


def members(file, key=None):
    with file.open("rb") as opened:
        reader = ArchiveReader(opened, key)
        return {name: b"".join(content) for name, content in reader.entries()}


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_a_backup_restored_elsewhere_is_the_same(place, new_place, tmp_path, key):
    file = place.back_up(tmp_path / "backups", key=key)
    other = new_place("other")
    with file.open("rb") as opened:
        restored = restore(opened, other.settings, key, replace=False)
    assert other.rows() == place.rows()
    assert restored.head.counts == {"collections": 1, "documents": 3, "originals": 1}
    assert restored.aside is None
    for name in FILES:
        assert (other.data_dir / name).read_bytes() == (place.data_dir / name).read_bytes()
    assert not (other.data_dir / "chroma").exists()
    folders = [other.data_dir, *(path for path in other.data_dir.rglob("*") if path.is_dir())]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}
    assert (other.data_dir / "secret.key").stat().st_mode & 0o777 == 0o600
    assert (other.data_dir / "audit" / "audit-2026-11-25-0001.jsonl").stat().st_mode & 0o777 == 0o400


def test_the_restored_catalogue_takes_writes(place, new_place, tmp_path):
    file = place.back_up(tmp_path / "backups")
    other = new_place("other")
    with file.open("rb") as opened:
        restore(opened, other.settings, None, replace=False)
    other.fill(["d"])
    assert [row[1] for row in other.rows()[0]] == ["a", "b", "c", "d"]


def test_it_holds_the_files_and_nothing_else(place, tmp_path):
    found = members(place.back_up(tmp_path / "backups"))
    assert {name for name in found if not name.startswith(("postgresql/", "catalog"))} == FILES - {"catalogue.id"}
    assert FOLDER == AUDIT
    assert Path(str(FileName(date(2026, 11, 25), 1))).match(files.AUDIT_FILES)


def test_a_pipe_among_the_originals_keeps_no_backup_waiting(place, tmp_path):
    os.mkfifo(place.data_dir / "originals" / "c0ffee" / "pipe")
    os.mkfifo(place.data_dir / "audit" / "audit-2026-11-25-0002.jsonl")
    assert set(members(place.back_up(tmp_path / "backups"))) - {"catalog.sqlite"} >= FILES


def test_no_name_and_no_keys_that_cannot_be_read_keep_a_backup_from_being_made(place, tmp_path):
    home = place.data_dir / "uploads" / "home"
    for file in (home, place.data_dir / "secret.key"):
        file.write_bytes(b"\xff")
    with place.back_up(tmp_path / "backups").open("rb") as file:
        assert ArchiveReader(file, None).head.home == ""
    home.unlink()
    os.mkfifo(home)
    assert not {"uploads/home", "secret.key"} & {*members(place.back_up(tmp_path / "more"))}


def test_a_copy_of_the_catalogue_alone_has_no_files(place, tmp_path):
    file = place.back_up(tmp_path / "backups", whole=False)
    assert all(name.startswith(("postgresql/", "catalog.sqlite")) for name in members(file))
    assert file.name.startswith("before-migration-from-schema-")


def test_nothing_is_left_beside_it(place, tmp_path):
    file = place.back_up(tmp_path / "backups")
    assert list(file.parent.iterdir()) == [file]
    assert file.stat().st_mode & 0o777 == 0o600
    assert not (place.data_dir / HELD).exists()


def test_plain_copies_are_in_the_data_directory_alone(place, tmp_path, monkeypatch):
    """Who may read the folder of backups finds the encrypted file there, at no moment anything else."""
    folder, scratch, seen = tmp_path / "backups", place.data_dir / SCRATCH, []

    def look():
        assert scratch.stat().st_mode & 0o777 == 0o700
        assert all(file.stat().st_mode & 0o777 == 0o600 for file in scratch.iterdir())
        seen.append([file.name for file in scratch.iterdir()])
        (written,) = folder.iterdir()
        assert written.name.endswith(".ragbackup.incomplete")
        assert b"text of" not in written.read_bytes()

    class Looking(ArchiveWriter):
        def finish(self):
            super().finish()
            look()

        def add(self, name, content):
            look()
            super().add(name, content)

    def read_into(reader, receiver, *rest):
        found = real(reader, receiver, *rest)
        look()
        return found

    real = verifying.read_into
    monkeypatch.setattr(making, "ArchiveWriter", Looking)
    monkeypatch.setattr(verifying, "read_into", read_into)
    place.back_up(folder, key=KEY)
    copied = [] if place.settings.catalog_url else ["catalogue"]
    assert (seen[0], seen[-1]) == (copied, ["trial"] if copied else [])
    assert not scratch.exists()


def test_what_a_killed_backup_left_goes_at_the_next_start_unless_one_is_under_way(place):
    for name in (SCRATCH, HELD):
        place.write(f"{name}/catalogue", b"plain")
    with only_backup(place.data_dir):
        sweep_killed(place.data_dir)
    assert (place.data_dir / SCRATCH / "catalogue").exists()
    sweep_killed(place.data_dir)
    assert not (place.data_dir / SCRATCH).exists()
    assert not (place.data_dir / HELD).exists()


def test_room_is_wanted_where_the_copy_is_and_where_the_backup_goes(place, tmp_path, another_disk, monkeypatch):
    """A SQLite catalogue is copied to the data directory, one in PostgreSQL to no file."""
    monkeypatch.setattr(making, "MEGABYTE", 1)
    catalogue = place.settings.catalog_url == ""
    short = {place.data_dir: 10**12, another_disk: 10**12}
    monkeypatch.setattr(making, "free_disk_mb", short.__getitem__)
    maker = BackupMaker(place.data_dir, catalog_access(place.settings).copies, key=None, floor_mb=1)
    maker.check_room(another_disk)
    short[place.data_dir] = 0
    if catalogue:
        with pytest.raises(DiskFloorError, match="in the data directory"):
            maker.check_room(another_disk)
    else:
        maker.check_room(another_disk)
    short[another_disk] = 0
    with pytest.raises(DiskFloorError, match="where it is kept"):
        maker.check_room(another_disk)


def test_its_head_can_be_read_without_the_key_and_holds_no_text(place, tmp_path):
    file = place.back_up(tmp_path / "backups", key=KEY)
    with file.open("rb") as opened:
        head, _ = read_head(opened)
    assert (head.encrypted, head.counts["documents"], head.kind) == (
        True,
        3,
        (place.settings.catalog_url and "postgresql") or "sqlite",
    )
    content = file.read_bytes()
    assert b"text of" not in content
    assert (place.data_dir / "secret.key").read_bytes() not in content


def test_rows_that_refer_to_nothing_are_no_fault_of_the_backup(place, tmp_path):
    """They are as the catalogue has them; without a backup nothing would be better."""
    if place.settings.catalog_url:
        pytest.skip("PostgreSQL lets no such rows be")
    with closing(sqlite3.connect(place.data_dir / "catalog.sqlite")) as connection:
        connection.execute("DELETE FROM collections")
        connection.commit()
        assert connection.execute("PRAGMA foreign_key_check").fetchall()
    assert place.back_up(tmp_path / "backups").exists()


def test_a_head_dated_without_a_zone_is_none(place, tmp_path):
    with place.back_up(tmp_path / "backups").open("rb") as opened:
        head, _ = read_head(opened)
    with pytest.raises(DamagedArchiveError):
        load_head(dump_head(replace(head, created_at=head.created_at.replace(tzinfo=None))))


@pytest.mark.parametrize(
    "change",
    [
        {"id": "rag-wrapper\x1b[2J"},
        {"release": "0.2.0\x1b]0;mine\x07"},
        {"release": "0.2.0\nRestored"},
        {"kind": "sqlite\x9b"},
        {"counts": {"docu\x1bments": 1}},
        {"catalogue": "\x1b[31m"},
    ],
)
def test_a_head_that_would_do_something_to_a_terminal_is_none(place, tmp_path, change):
    with place.back_up(tmp_path / "backups").open("rb") as opened:
        head, _ = read_head(opened)
    with pytest.raises(DamagedArchiveError) as caught:
        load_head(dump_head(replace(head, **change)))
    assert caught.value.message.isprintable()


def test_a_head_of_a_newer_format_says_of_which_release_it_is_unless_that_is_none():
    for release, said in (("9.0.0", "by release 9.0.0"), ("9\x1b[2J", "cannot be read")):
        with pytest.raises(DamagedArchiveError, match=said):
            load_head(orjson.dumps({"format": 99, "release": release}))


def test_it_never_takes_the_place_of_another_file(place, tmp_path):
    file = place.back_up(tmp_path / "backups")
    before = file.read_bytes()
    with opened_maker(place.settings, None) as maker, pytest.raises(ConflictError):
        maker.make(file, Reason.ASKED)
    assert file.read_bytes() == before


def test_one_is_made_on_a_disk_where_no_file_has_two_names(place, tmp_path, monkeypatch):
    """As on FAT and many shares: to mount one is not for tests."""

    def refused(_written, to):
        if to.parent == tmp_path / "backups":
            raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(making.os, "link", refused)
    file = place.back_up(tmp_path / "backups")
    assert "secret.key" in members(file)
    content = file.read_bytes()
    with opened_maker(place.settings, None) as maker, maker.begin(other := file.with_name("other.ragbackup")) as begun:
        other.write_bytes(b"came meanwhile")
        with pytest.raises(ConflictError, match="never replaces"):
            maker.complete(begun, other, Reason.ASKED)
        making.discard(begun, other)
    assert (file.read_bytes(), other.read_bytes()) == (content, b"came meanwhile")
    assert sorted(file.parent.iterdir()) == sorted([file, other])


def test_one_is_made_at_a_time(place):
    with only_backup(place.data_dir), pytest.raises(BackupUnderWayError), opened_maker(place.settings, None):
        pass


def test_too_little_room_is_told_before_anything_is_written(place, tmp_path):
    maker = BackupMaker(place.data_dir, catalog_access(place.settings).copies, key=None, floor_mb=10**9)
    with pytest.raises(DiskFloorError, match="RAG_DISK_FLOOR_MB"):
        maker.make(maker.new_target(tmp_path, Reason.ASKED), Reason.ASKED)
    assert Shelf(tmp_path).all() == []


def test_a_directory_without_a_catalogue_is_refused_and_stays_as_it_is(tmp_path, place):
    from schemas.settings import WrapperSettings

    with (
        pytest.raises(ConfigurationError, match="no catalogue"),
        opened_maker(WrapperSettings(data_dir=tmp_path), None),
    ):
        pass


def test_another_catalogue_is_not_taken_for_the_services(place, tmp_path):
    (place.data_dir / "catalogue.id").write_text("another")
    with pytest.raises(ConfigurationError, match="RAG_CATALOG_URL"):
        place.back_up(tmp_path / "backups")
    assert list((tmp_path / "backups").iterdir()) == []


def test_both_keys_are_kept_when_the_key_changes_meanwhile(place, tmp_path):
    old = (place.data_dir / "secret.key").read_text()
    held = files.HeldFiles(place.data_dir)
    held.begin()
    (place.data_dir / "secret.key").write_text("new\n")
    kept = {name: b"".join(content).decode() for name, content in held.members()}
    assert kept["secret.key"] == f"new\n{old}"
    held.release()


def test_what_is_deleted_while_it_is_made_is_in_it(place):
    held = files.HeldFiles(place.data_dir)
    held.begin()
    (place.data_dir / "originals" / "c0ffee" / ORIGINAL).unlink()
    place.write(f"originals/c0ffee/{ORIGINAL.replace('1', '2')}", b"came before the snapshot")
    held.hold()
    assert held.originals() == 2
    held.release()


def test_originals_on_another_disk_are_copied_while_there_is_room(
    place, new_place, tmp_path, another_disk, monkeypatch
):
    shutil.copytree(place.data_dir / "originals", another_disk / "originals")
    shutil.rmtree(place.data_dir / "originals")
    (place.data_dir / "originals").symlink_to(another_disk / "originals")
    file = place.back_up(tmp_path / "backups")
    other = new_place("other")
    with file.open("rb") as opened:
        restore(opened, other.settings, None, replace=False)
    assert (other.data_dir / "originals" / "c0ffee" / ORIGINAL).read_bytes() == b"%PDF original"

    maker = BackupMaker(place.data_dir, catalog_access(place.settings).copies, key=None, floor_mb=10**9)
    monkeypatch.setattr(maker, "check_room", lambda *_: None)
    with pytest.raises(DiskFloorError, match="another disk") as caught:
        maker.make(maker.new_target(tmp_path / "backups", Reason.ASKED), Reason.ASKED)
    assert caught.value.details["field"] == "RAG_DISK_FLOOR_MB"
    assert list((tmp_path / "backups").iterdir()) == [file]
    assert not (place.data_dir / HELD).exists()


def test_it_shows_one_moment_while_writers_write(place, new_place, tmp_path):
    """Pairs are written in one request each; those acknowledged before are there, and none is there in half."""
    ending, stored = threading.Event(), []

    def write():
        number = 0
        while not ending.is_set():
            number += 1
            place.fill([f"left {number}", f"right {number}"])
            stored.append(number)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while len(stored) < 3:
            ending.wait(0.01)
        before = len(stored)
        file = place.back_up(tmp_path / "backups")
    finally:
        ending.set()
        writer.join()
    other = new_place("other")
    with file.open("rb") as opened:
        restore(opened, other.settings, None, replace=False)
    ids = {row[1] for row in other.rows()[0]} - {"a", "b", "c"}
    numbers = {int(each.split()[1]) for each in ids}
    assert ids == {f"{side} {number}" for number in numbers for side in ("left", "right")}
    assert numbers >= set(range(1, before + 1))


def test_what_earlier_releases_indexed_words_by_is_kept(place, new_place, tmp_path):
    """A column of a type of PostgreSQL's own, an index over it, and rules of words: the first release had them."""
    if not place.settings.catalog_url:
        pytest.skip("the catalogue is a file")
    database = catalog_access(place.settings).database
    with closing(database.connect()) as connection:
        for statement in WORD_RULES:
            connection.execute(statement)
        connection.execute("CREATE TABLE words (position BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)")
        connection.execute("CREATE INDEX words_in_it ON words USING gin (words)")
        connection.execute("INSERT INTO words SELECT 1, to_tsvector('rag_words', 'Restoring a backup')")
    file = place.back_up(tmp_path / "backups")
    other = new_place("other")
    with file.open("rb") as opened:
        restore(opened, other.settings, None, replace=False)
    with closing(catalog_access(other.settings).database.connect()) as connection:
        asked = "SELECT position FROM words WHERE words @@ to_tsquery('rag_words', 'backups')"
        found = connection.execute(asked).fetchall()
        indexes = connection.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'words_in_it'").fetchall()
    assert found == [(1,)]
    assert "gin" in indexes[0][0]


def test_the_tables_are_made_as_they_were(place, new_place, tmp_path):
    """Columns, defaults, keys and indexes of a restored catalogue are those of a new one."""
    file = place.back_up(tmp_path / "backups")
    other = new_place("other")
    with file.open("rb") as opened:
        restore(opened, other.settings, None, replace=False)
    assert described(other) == described(place)


def described(place):
    if place.settings.catalog_url:
        statements = [TABLES, CONSTRAINTS, INDEXES]
        with closing(catalog_access(place.settings).database.connect()) as connection:
            return [connection.execute(statement).fetchall() for statement in statements]
    with closing(sqlite3.connect(place.data_dir / "catalog.sqlite")) as connection:
        return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
