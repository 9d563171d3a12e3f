"""Which files of a folder are backups, and which go; an erasure and backups keep each other away, and an erasure tells of
those that there are."""

import fcntl
import os
import time
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from wrapper.backups.making import BackupUnderWayError, only_backup
from wrapper.backups.places import HELD, KEPT_FOLDER, SCRATCH
from wrapper.backups.service_backups import Backups
from wrapper.backups.shelf import ENDING, Kept, Shelf, incomplete
from wrapper.catalog_choice import catalog_access
from wrapper.erasing import kept_backups
from wrapper.erasing.kept_backups import KeptBackups


def test_only_whole_backups_of_the_catalogue_are_pruned(place, tmp_path):
    made = [place.back_up(tmp_path / "backups") for _ in range(3)]
    shelf = Shelf(tmp_path / "backups")
    newest = shelf.all()[0]
    damaged = made[0].with_name("rag-wrapper-20991125T184500Z-00000000.ragbackup")
    damaged.write_bytes(b"RAGBACKUP\n")
    foreign = made[0].with_name("notes.ragbackup")
    foreign.write_bytes(made[0].read_bytes())
    assert shelf.prune(replace(newest.head, catalogue="another"), 1) == []
    removed = shelf.prune(newest.head, 1)
    assert len(removed) == 2
    assert {file.name for file in shelf.folder.iterdir()} == {newest.path.name, damaged.name, foreign.name}
    assert [kept.head for kept in shelf.all()] == [newest.head, None]
    assert shelf.prune(newest.head, 0) == []
    assert newest.path.exists()


def test_copies_of_the_catalogue_alone_are_no_older_backups(place, tmp_path):
    """The copy may be the only way back to the release before."""
    copy, made = place.back_up(tmp_path / "backups", whole=False), place.back_up(tmp_path / "backups")
    shelf = Shelf(tmp_path / "backups")
    head = shelf.find(made.name.removesuffix(ENDING)).head
    assert shelf.prune(head, 1) == []
    assert copy.exists()


def test_a_catalogue_without_an_identity_prunes_nothing(place, tmp_path, monkeypatch):
    files = [place.back_up(tmp_path / "backups") for _ in range(2)]
    shelf = Shelf(tmp_path / "backups")
    heads = [replace(kept.head, catalogue="") for kept in shelf.all()]
    kept = [Kept(head.id, file, 1, head) for head, file in zip(heads, files, strict=True)]
    monkeypatch.setattr(shelf, "all", lambda: kept)
    assert shelf.prune(heads[0], 1) == []


def test_the_one_that_was_just_made_stays_whatever_the_clock_says(place, tmp_path):
    made, later = (place.back_up(tmp_path / "backups") for _ in range(2))
    shelf = Shelf(tmp_path / "backups")
    head = shelf.find(made.name.removesuffix(ENDING)).head
    assert shelf.prune(head, 1) == [later.name.removesuffix(ENDING)]
    assert made.exists()


def test_what_a_killed_backup_left_goes_and_what_is_being_written_stays(tmp_path):
    shelf = Shelf(tmp_path)
    left, written = (
        incomplete(tmp_path / f"rag-wrapper-20261125T184500Z-0000000{number}.ragbackup") for number in (1, 2)
    )
    for file in (left, written):
        file.write_bytes(b"half")
    with written.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert shelf.under_way() == ["rag-wrapper-20261125T184500Z-00000002"]
        assert shelf.all() == []
        shelf.sweep()
        assert sorted(file.name for file in tmp_path.iterdir()) == [written.name]
    shelf.sweep()
    assert list(tmp_path.iterdir()) == []


def test_links_pipes_and_ids_that_are_none_find_no_backup_and_keep_none_waiting(place, tmp_path):
    file = place.back_up(tmp_path / "elsewhere")
    folder = tmp_path / "backups"
    folder.mkdir()
    os.symlink(file, folder / file.name)
    pipe = "rag-wrapper-20261125T184500Z-3f2a9c1d"
    os.mkfifo(folder / f"{pipe}{ENDING}")
    os.mkfifo(unfilled := folder / f".notes{ENDING}.incomplete")
    (tmp_path / "x.ragbackup").write_bytes(b"")
    shelf = Shelf(folder)
    assert shelf.all() == shelf.under_way() == []
    for backup_id in (pipe, file.name.removesuffix(ENDING), "../x", "x", "", pipe.replace("3f", "4f")):
        assert shelf.find(backup_id) is None, backup_id
    place.back_up(folder)
    assert not unfilled.exists()


@pytest.fixture
def backups(place, tmp_path):
    access = catalog_access(place.settings)
    with closing(access.database):
        yield Backups(replace(place.settings, backup_dir=tmp_path / "backups"), access.copies, place.rows()[2])


def test_a_backup_that_is_being_made_is_waited_for(place, backups):
    with ExitStack() as made:
        made.enter_context(only_backup(place.data_dir))
        paused = []

        def pause(_seconds):
            paused.append(1)
            if len(paused) == 3:
                made.close()

        with KeptBackups(backups, time.monotonic, pause).away():
            assert len(paused) == 3


def test_one_that_does_not_end_is_told(place, backups, monkeypatch):
    monkeypatch.setattr(kept_backups, "WAIT_SECONDS", 0.0)
    erasure = KeptBackups(backups, time.monotonic, time.sleep)
    with only_backup(place.data_dir), pytest.raises(BackupUnderWayError, match="nothing was erased"), erasure.away():
        pass


def test_none_begins_while_something_is_erased(place, backups, tmp_path):
    place.write(f"{SCRATCH}/catalogue", b"of a killed backup")
    place.write(f"{HELD}/originals/c0ffee/one", b"of a killed backup")
    with KeptBackups(backups, time.monotonic, time.sleep).away():
        assert not (place.data_dir / SCRATCH).exists()
        assert not (place.data_dir / HELD).exists()
        with pytest.raises(BackupUnderWayError, match="erased"):
            backups.begin()
        with pytest.raises(BackupUnderWayError, match="erased"):
            place.back_up(tmp_path / "elsewhere")
    place.back_up(tmp_path / "elsewhere")


def test_those_of_the_catalogue_are_counted(place, backups, tmp_path):
    erasure = KeptBackups(backups, time.monotonic, time.sleep)
    assert "keeps none from before" in erasure.told().done
    place.back_up(tmp_path / "backups")
    (place.data_dir / KEPT_FOLDER).mkdir()
    place.back_up(place.data_dir / KEPT_FOLDER, whole=False)
    assert erasure.told().done.startswith("not erased: 2 from before")
