"""What a backup holds, and when it counts."""

import errno
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from schemas.errors import ConfigurationError, ConflictError, DiskFloorError
from tests.support.live import PATIENCE_SECONDS, eventually
from tests.wrapper.backups.conftest import BOTH, KEY, ORIGINAL, POSTGRESQL
from tests.wrapper.stores.reembedded import NEW, embedded, reembeddings
from wrapper.audit.audit_log import FOLDER
from wrapper.audit.file_names import FileName
from wrapper.backups import files, making, verifying
from wrapper.backups.archive import ArchiveReader, ArchiveWriter, read_head
from wrapper.backups.making import BackupMaker, BackupUnderWayError, only_backup, opened_maker, sweep_killed
from wrapper.backups.manifest import Reason
from wrapper.backups.places import AUDIT, HELD, SCRATCH
from wrapper.catalog import snapshots
from wrapper.catalog.names import databases
from wrapper.catalog.postgres.copies import TOKEN_TABLE, WORD_RULES, _described
from wrapper.catalog.rows import all_collections
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
@BOTH
def test_a_backup_restored_elsewhere_is_the_same(place, new_place, tmp_path, key):
    """Rows, files, and the tables with their defaults, keys and indexes; and it takes writes."""
    file = place.back_up(tmp_path / "backups", key=key)
    other = new_place("other")
    restored = other.restore(file, key)
    assert other.rows() == place.rows()
    assert described(other) == described(place)
    assert restored.head.kind == ("postgresql" if place.settings.catalog_url else "sqlite")
    assert restored.head.counts == {"collections": 1, "documents": 3, "originals": 1}
    assert restored.aside is None
    for name in FILES:
        assert (other.data_dir / name).read_bytes() == (place.data_dir / name).read_bytes()
    assert not (other.data_dir / "chroma").exists()
    folders = [other.data_dir, *(path for path in other.data_dir.rglob("*") if path.is_dir())]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}
    assert (other.data_dir / "secret.key").stat().st_mode & 0o777 == 0o600
    assert (other.data_dir / "audit" / "audit-2026-11-25-0001.jsonl").stat().st_mode & 0o777 == 0o400
    other.fill(["d"])
    assert [row[1] for row in other.rows()[0]] == ["a", "b", "c", "d"]
    if place.settings.catalog_url:  # nor is the token left by which a restore is known to have happened
        with closing(catalog_access(other.settings).database.connect()) as connection:
            assert connection.execute("SELECT to_regclass(%s)", (TOKEN_TABLE,)).fetchone() == (None,)


def described(place):
    if place.settings.catalog_url:
        with closing(catalog_access(place.settings).database.connect()) as connection:
            return _described(connection)
    with closing(sqlite3.connect(place.data_dir / "catalog.sqlite")) as connection:
        return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()


def test_it_holds_the_files_and_nothing_else_and_leaves_nothing_beside_it(place, tmp_path):
    """A pipe among the files keeps it waiting no more than other things that are in no backup."""
    os.mkfifo(place.data_dir / "originals" / "c0ffee" / "pipe")
    os.mkfifo(place.data_dir / "audit" / "audit-2026-11-25-0002.jsonl")
    file = place.back_up(tmp_path / "backups")
    assert set(members(file)) - {"catalog.sqlite"} == FILES
    assert list(file.parent.iterdir()) == [file]
    assert file.stat().st_mode & 0o777 == 0o600
    assert not (place.data_dir / HELD).exists()
    assert FOLDER == AUDIT
    assert Path(str(FileName(date(2026, 11, 25), 1))).match(files.AUDIT_FILES)


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
    assert set(members(file)) == {"catalog.sqlite"}
    assert file.name.startswith("before-migration-from-schema-")


@BOTH
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
        with pytest.raises(BackupUnderWayError), opened_maker(place.settings, None):
            pass
    assert (place.data_dir / SCRATCH / "catalogue").exists()
    sweep_killed(place.data_dir)
    assert not (place.data_dir / SCRATCH).exists()
    assert not (place.data_dir / HELD).exists()


@BOTH
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
    assert (head.encrypted, head.counts["documents"], head.kind) == (True, 3, "sqlite")
    content = file.read_bytes()
    assert b"text of" not in content
    assert (place.data_dir / "secret.key").read_bytes() not in content


def test_rows_that_refer_to_nothing_are_no_fault_of_the_backup(place, tmp_path):
    """They are as the catalogue has them; without a backup nothing would be better."""
    with closing(sqlite3.connect(place.data_dir / "catalog.sqlite")) as connection:
        connection.execute("DELETE FROM collections")
        connection.commit()
        assert connection.execute("PRAGMA foreign_key_check").fetchall()
    assert place.back_up(tmp_path / "backups").exists()


def test_one_is_made_on_a_disk_where_no_file_has_two_names(place, tmp_path, monkeypatch):
    """As on FAT and many shares: to mount one is not for tests."""

    def refused(_written, to):
        if to.parent == tmp_path / "backups":
            raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(making.os, "link", refused)
    file = place.back_up(tmp_path / "backups")
    assert "secret.key" in members(file)
    content = file.read_bytes()
    with opened_maker(place.settings, None) as maker, pytest.raises(ConflictError):
        maker.make(file, Reason.ASKED)
    with opened_maker(place.settings, None) as maker, maker.begin(other := file.with_name("other.ragbackup")) as begun:
        other.write_bytes(b"came meanwhile")
        with pytest.raises(ConflictError, match="never replaces"):
            maker.complete(begun, other, Reason.ASKED)
        making.discard(begun, other)
    assert (file.read_bytes(), other.read_bytes()) == (content, b"came meanwhile")
    assert sorted(file.parent.iterdir()) == sorted([file, other])


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


def test_originals_on_another_disk_are_copied_while_there_is_room(place, tmp_path, another_disk, monkeypatch):
    shutil.copytree(place.data_dir / "originals", another_disk / "originals")
    shutil.rmtree(place.data_dir / "originals")
    (place.data_dir / "originals").symlink_to(another_disk / "originals")
    file = place.back_up(tmp_path / "backups")
    assert members(file)[f"originals/c0ffee/{ORIGINAL}"] == b"%PDF original"

    maker = BackupMaker(place.data_dir, catalog_access(place.settings).copies, key=None, floor_mb=10**9)
    monkeypatch.setattr(maker, "check_room", lambda *_: None)
    with pytest.raises(DiskFloorError, match="another disk") as caught:
        maker.make(maker.new_target(tmp_path / "backups", Reason.ASKED), Reason.ASKED)
    assert caught.value.details["field"] == "RAG_DISK_FLOOR_MB"
    assert list((tmp_path / "backups").iterdir()) == [file]
    assert not (place.data_dir / HELD).exists()


@BOTH
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
        eventually(lambda: len(stored) >= 3)
        before = len(stored)
        file = place.back_up(tmp_path / "backups")
    finally:
        ending.set()
        writer.join(PATIENCE_SECONDS)
    other = new_place("other")
    other.restore(file)
    ids = {row[1] for row in other.rows()[0]} - {"a", "b", "c"}
    numbers = {int(each.split()[1]) for each in ids}
    assert ids == {f"{side} {number}" for number in numbers for side in ("left", "right")}
    assert numbers >= set(range(1, before + 1))


@POSTGRESQL
def test_what_earlier_releases_indexed_words_by_is_kept(place, new_place, tmp_path):
    """A column of a type of PostgreSQL's own, an index over it, and rules of words: the first release had them."""
    database = catalog_access(place.settings).database
    with closing(database.connect()) as connection:
        for statement in WORD_RULES:
            connection.execute(statement)
        connection.execute("CREATE TABLE words (position BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)")
        connection.execute("CREATE INDEX words_in_it ON words USING gin (words)")
        connection.execute("INSERT INTO words SELECT 1, to_tsvector('rag_words', 'Restoring a backup')")
    file = place.back_up(tmp_path / "backups")
    other = new_place("other")
    other.restore(file)
    with closing(catalog_access(other.settings).database.connect()) as connection:
        asked = "SELECT position FROM words WHERE words @@ to_tsquery('rag_words', 'backups')"
        found = connection.execute(asked).fetchall()
        indexes = connection.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'words_in_it'").fetchall()
    assert found == [(1,)]
    assert "gin" in indexes[0][0]


def make_databases(transaction):
    databases.create_tenant(transaction, "acme")
    for name in ("main", "empty"):
        databases.create_database(transaction, "acme", name)


def known(place):
    """Return the databases, and the name and number of documents of each collection."""
    with place.opened() as catalog, catalog.read() as transaction:
        collections = [(each.name, each.count) for each in all_collections(transaction)]
        return databases.all_databases(transaction), collections


@BOTH
def test_collections_come_back_to_their_databases(place, new_place, tmp_path):
    with place.opened() as catalog:
        catalog.commit(make_databases)
    place.fill(["a", "x"], collection="/acme/main/library")
    after = new_place("after")
    after.restore(place.back_up(tmp_path / "backups"))
    assert after.rows() == place.rows()
    assert known(after) == known(place)
    there, collections = known(after)
    assert [each.name for each in there if each.tenant == "acme"] == ["empty", "main"]
    assert collections == [("/acme/main/library", 2), ("library", 3)]


@BOTH
def test_vectors_that_stand_beside_a_collection_are_there_and_counted_by_earlier_releases_alone(
    place, new_place, tmp_path, monkeypatch
):
    shown = {"collections": 1, "documents": 3, "originals": 1}
    with place.opened() as catalog:
        work = reembeddings(catalog)
        work.begin("library", NEW)
        [hidden] = work.under_way()
        part = work.next_part(hidden, 2)
        assert not work.store(part, np.stack([embedded(each.text) for each in part.documents]))
    other, later = new_place("other"), new_place("later")
    assert other.restore(place.back_up(tmp_path / "backups")).head.counts == shown
    assert other.rows() == place.rows()
    with other.opened() as catalog:
        assert reembeddings(catalog).of("library").documents_done == 2
    monkeypatch.setattr(snapshots, "HIDDEN", "SELECT key FROM collections WHERE 1 = 0")
    earlier = place.back_up(tmp_path / "backups")
    monkeypatch.undo()
    assert later.restore(earlier).head.counts == shown | {"collections": 2, "documents": 5}
    assert later.rows() == place.rows()
