"""Backups that a service makes by itself, and the copies that are kept before migrations."""

import os
import resource
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from schemas.errors import ConfigurationError, DiskFloorError, NotFoundError, NoThreadError, UnavailableError
from schemas.settings import WrapperSettings
from schemas.settings.backup_times import BackupTimes
from schemas.storage.backups import BackupState
from tests.support.live import eventually, no_thread_begins
from tests.support.logs import logs_of
from tests.wrapper.backups.conftest import ORIGINAL, POSTGRESQL, Place
from wrapper.backups import before_migration
from wrapper.backups.before_migration import RELEASE_FILE, keep_before_migration, note_release
from wrapper.backups.making import LOCK_FILE, only_backup, opened_maker
from wrapper.backups.manifest import Reason
from wrapper.backups.places import HELD, KEPT_FOLDER, SCRATCH
from wrapper.backups.service_backups import Backups
from wrapper.backups.shelf import Shelf
from wrapper.catalog_choice import catalog_access
from wrapper.catalogue_mark import mark

DAILY = BackupTimes.parse("24h")


@pytest.fixture
def opened(place, tmp_path):
    """`opened(now, **settings)`: the backups of the place, by a clock."""
    with ExitStack() as stack:

        def opened(now=lambda: datetime.now(UTC), **settings):
            access = catalog_access(place.settings)
            stack.callback(access.database.close)
            given = replace(place.settings, backup_dir=tmp_path / "backups", **settings)
            return Backups(given, access.copies, place.rows()[2], now)

        yield opened


def test_one_is_made_when_it_is_time(opened):
    later = [timedelta()]
    backups = opened(lambda: datetime.now(UTC) + later[0], backup_every=DAILY, backup_keep=2)
    assert backups.age_seconds() is None
    backups.look()
    backups.look()
    assert [each.reason for each in backups.all()] == ["schedule"]
    later[0] = timedelta(hours=23)
    backups.look()
    assert len(backups.all()) == 1
    assert 23 * 3_600 <= backups.age_seconds() <= 24 * 3_600
    later[0] = timedelta(hours=25)
    backups.look()
    assert len(backups.all()) == 2


def test_nothing_is_made_unless_it_is_asked_for_and_no_other_process_makes_one(opened, place):
    backups = opened()
    backups.look()
    assert backups.all() == []
    with only_backup(place.data_dir):
        opened(backup_every=DAILY).look()
    with no_thread_begins(), pytest.raises(NoThreadError):
        backups.begin()
    assert backups.all() == []
    backups.begin()
    eventually(lambda: [each.state for each in backups.all()] == [BackupState.DONE])


def test_after_a_failure_it_is_tried_again_later(opened, monkeypatch):
    backups = opened(backup_every=DAILY, disk_floor_mb=10**9)
    backups.look()
    backups.look()
    (failed,) = backups.all()
    assert (failed.state, failed.reason) == ("failed", "schedule")
    assert "RAG_DISK_FLOOR_MB" in failed.message
    assert backups.age_seconds() is None


@pytest.fixture
def small_disk(place):
    """Let no file grow beyond 4 MB, and have an original that makes a backup larger than that."""
    place.write(f"originals/c0ffee/{ORIGINAL}", os.urandom(8 << 20))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_nothing_is_left_of_one_that_does_not_fit(opened, place, tmp_path, small_disk):
    with pytest.raises(DiskFloorError, match="RAG_BACKUP_DIR: the backup could not be written: File too large"):
        place.back_up(tmp_path / "backups")
    assert list((tmp_path / "backups").iterdir()) == []
    backups = opened(backup_every=DAILY)
    backups.look()
    assert [(each.state, each.message.partition(": ")[0]) for each in backups.all()] == [("failed", "RAG_BACKUP_DIR")]
    assert [file.suffix for file in (tmp_path / "backups").iterdir()] == [".failed"]
    assert {HELD, SCRATCH}.isdisjoint(os.listdir(place.data_dir))


def test_a_database_that_does_not_answer_is_a_failure_like_others(tmp_path):
    nobody = "postgresql://nobody@127.0.0.1:1/none"
    settings = WrapperSettings(
        data_dir=tmp_path, catalog_url=nobody, backup_dir=tmp_path / "backups", backup_every=DAILY
    )
    with pytest.raises(UnavailableError), opened_maker(settings, None) as maker:
        maker.make(tmp_path / "one.ragbackup", Reason.ASKED)
    backups = Backups(settings, catalog_access(settings, makes=False).copies, "mine")
    backups.look()
    assert [(each.state, each.message) for each in backups.all()] == [("failed", "The catalogue could not be copied")]


def test_what_looks_like_a_note_is_passed_over_keeps_no_backup_from_being_made_and_stays(opened, tmp_path):
    (folder := tmp_path / "backups").mkdir()
    os.mkfifo(folder / ".pipe.failed")
    (folder / ".link.failed").symlink_to(tmp_path / "nothing")
    (folder / ".folder.failed").mkdir()
    (folder / ".job.failed").write_text("of a program that is not the service")
    (folder / ".other.failed").write_text('{"id":1,"at":"2026-11-25T00:00:00","reason":{},"message":1}')
    there = set(os.listdir(folder))
    backups = opened(backup_every=DAILY)
    assert backups.all() == []
    backups.look()
    assert [each.state for each in backups.all()] == ["done"]
    assert there <= set(os.listdir(folder))


def test_a_failure_and_a_backup_of_another_catalogue_in_the_same_folder_are_its_own(opened):
    backups = opened(backup_every=DAILY)
    failing = replace(backups._settings, disk_floor_mb=10**9)
    other = Backups(failing, backups._copies, "another")
    other.look()
    backups.look()
    assert [each.state for each in backups.all()] == ["done"]
    assert [each.state for each in other.all()] == ["failed", "done"]
    assert backups.age_seconds() is not None
    assert other.age_seconds() is None


@POSTGRESQL
def test_services_on_one_database_need_backups_of_their_own_in_one_folder_too(opened, place, tmp_path):
    """Each has the files of its own data directory: neither stands for that of the other, nor makes it go."""
    beside = Place(replace(place.settings, data_dir=tmp_path / "beside"))
    beside.write("uploads/home", b"other-home")
    with beside.opened() as catalog:
        mark(beside.data_dir, catalog)
    backups = opened(backup_every=DAILY, backup_keep=1)
    other = Backups(replace(backups._settings, data_dir=beside.data_dir), backups._copies, backups._catalogue)
    for each in (backups, other, backups):
        each.look()
    assert sorted(kept.head.home for kept in Shelf(tmp_path / "backups").all()) == ["home-id", "other-home"]
    failing = replace(other._settings, disk_floor_mb=10**9)
    Backups(failing, backups._copies, backups._catalogue, lambda: datetime.now(UTC) + timedelta(days=2)).look()
    assert [each.state for each in backups.all()] == ["done", "done"]
    assert [each.state for each in other.all()] == ["failed", "done", "done"]


def test_a_failure_from_the_future_keeps_no_backup_from_being_made(opened):
    ahead = [timedelta(days=2)]
    opened(lambda: datetime.now(UTC) + ahead[0], backup_every=DAILY, disk_floor_mb=10**9).look()
    backups = opened(backup_every=DAILY)
    assert [each.state for each in backups.all()] == ["failed"]
    backups.look()
    assert [each.state for each in backups.all()] == ["done"]


def test_a_backup_from_the_future_counts_as_none(opened):
    """A clock that jumped ahead and came back must not silence the schedule."""
    ahead = [timedelta(hours=2)]
    backups = opened(lambda: datetime.now(UTC) - ahead[0], backup_every=DAILY)
    backups.look()
    assert len(backups.all()) == 1
    assert backups.age_seconds() is None
    backups.look()
    assert len(backups.all()) == 2
    ahead[0] = timedelta(minutes=4)
    assert backups.age_seconds() == 0


def test_a_data_directory_that_cannot_be_written_to_is_told(opened, place):
    (place.data_dir / LOCK_FILE).unlink(missing_ok=True)
    (place.data_dir / LOCK_FILE).mkdir()
    backups = opened(backup_every=DAILY)
    (place.settings.data_dir.parent / "backups").mkdir()
    with pytest.raises(DiskFloorError, match="RAG_DATA_DIR: the backup could not be written") as caught:
        backups.begin()
    assert (caught.value.code, caught.value.details["field"]) == ("backup_unwritable", "RAG_DATA_DIR")
    backups.look()
    assert [each.state for each in backups.all()] == ["failed"]


@pytest.mark.parametrize("name", ["", "originals", "uploads/x", "backup-scratch"])
def test_a_folder_of_the_services_own_takes_no_backups(opened, place, name):
    backups = opened(backup_every=DAILY)
    backups = Backups(replace(backups._settings, backup_dir=place.data_dir / name), backups._copies, place.rows()[2])
    before = sorted(place.data_dir.rglob("*.ragbackup"))
    with pytest.raises(ConfigurationError, match="RAG_BACKUP_DIR") as caught:
        backups.begin()
    assert caught.value.details["field"] == "RAG_BACKUP_DIR"
    backups.look()
    assert sorted(place.data_dir.rglob("*.ragbackup")) == before


def test_content_that_cannot_be_read_is_not_handed_out(opened, tmp_path):
    backups = opened()
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / "rag-wrapper-20261125T184500Z-00000000.ragbackup").write_bytes(b"RAGBACKUP")
    with pytest.raises(NotFoundError):
        backups.file("rag-wrapper-20261125T184500Z-00000000")


class TestBeforeMigrations:
    @pytest.fixture
    def kept(self, place):
        """`kept(**settings)` opens the catalogue as a start does, and returns the copies that are kept then."""

        def kept(**settings):
            given = replace(place.settings, **settings)
            access = catalog_access(given)
            try:
                keep_before_migration(given, access)
            finally:
                access.database.close()
            note_release(given.data_dir)
            return Shelf(given.data_dir / KEPT_FOLDER).all()

        return kept

    def test_each_other_release_keeps_one_once_and_the_newest_three_stay(self, place, kept, monkeypatch):
        note_release(place.data_dir)
        assert kept() == []
        monkeypatch.setattr(before_migration, "release", lambda: "9.0.0")
        (copy,) = kept()
        assert copy.id.startswith(f"before-migration-from-schema-{copy.head.schema_version}-")
        assert (copy.head.reason, copy.head.whole, copy.head.counts["documents"]) == ("migration", False, 3)
        assert len(kept()) == 1
        for number in range(1, 5):
            monkeypatch.setattr(before_migration, "release", lambda number=number: f"9.{number}.0")
            copies = kept()
        assert len(copies) == 3

    def test_a_newer_schema_keeps_one_whatever_the_release(self, place, kept, monkeypatch):
        note_release(place.data_dir)
        monkeypatch.setattr(before_migration, "NEWEST", before_migration.NEWEST + 1)
        assert len(kept()) == 1

    def test_what_keeps_it_from_being_made_stops_the_start_with_a_way_on_unless_the_schema_stays(
        self, place, kept, monkeypatch
    ):
        """A failure of any family: too little room, and that another process makes a backup."""
        logged = logs_of(monkeypatch, "wrapper.backups.before_migration")
        assert kept(disk_floor_mb=10**9) == []
        assert "schema stays" in logged[-1]["event"]
        monkeypatch.setattr(before_migration, "NEWEST", before_migration.NEWEST + 1)
        with pytest.raises(ConfigurationError, match="RAG_MIGRATION_BACKUP=off"):
            kept(disk_floor_mb=10**9)
        with only_backup(place.data_dir), pytest.raises(ConfigurationError, match="RAG_MIGRATION_BACKUP=off"):
            kept()
        assert kept(disk_floor_mb=10**9, migration_backup=False) == []

    def test_a_new_directory_keeps_none_of_a_catalogue_of_the_same_schema(self, place, kept, monkeypatch):
        (place.data_dir / "catalogue.id").unlink()
        assert kept() == []
        (place.data_dir / RELEASE_FILE).unlink()
        monkeypatch.setattr(before_migration, "NEWEST", before_migration.NEWEST + 1)
        assert len(kept()) == 1

    def test_an_empty_directory_keeps_none(self, new_place):
        empty = new_place("empty")
        empty.data_dir.mkdir()
        access = catalog_access(empty.settings)
        keep_before_migration(empty.settings, access)
        access.database.close()
        assert not (empty.data_dir / KEPT_FOLDER).exists()

    def test_they_are_listed_with_the_others(self, place, kept, opened):
        (copy,) = kept()
        backups = opened()
        assert [(each.id, each.reason) for each in backups.all()] == [(copy.id, "migration")]
        assert backups.age_seconds() is None  # no backup of everything
        backups.delete(copy.id)
        assert backups.all() == []
