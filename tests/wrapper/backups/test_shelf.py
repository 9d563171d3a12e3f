"""Which files of a folder are backups, and which go."""

import fcntl
import os
from dataclasses import replace

from wrapper.backups.shelf import ENDING, Kept, Shelf, incomplete


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


def test_links_and_pipes_are_no_backups(place, tmp_path):
    file = place.back_up(tmp_path / "elsewhere")
    (tmp_path / "backups").mkdir()
    os.symlink(file, tmp_path / "backups" / file.name)
    pipe = "rag-wrapper-20261125T184500Z-3f2a9c1d"
    os.mkfifo(tmp_path / "backups" / f"{pipe}{ENDING}")
    shelf = Shelf(tmp_path / "backups")
    assert shelf.all() == []
    assert shelf.find(pipe) is None
    assert shelf.find(file.name.removesuffix(ENDING)) is None


def test_a_pipe_that_nobody_fills_keeps_no_backup_waiting(place, tmp_path):
    (tmp_path / "backups").mkdir()
    os.mkfifo(pipe := tmp_path / "backups" / f".notes{ENDING}.incomplete")
    assert Shelf(pipe.parent).under_way() == []
    place.back_up(pipe.parent)
    assert not pipe.exists()


def test_the_newest_one_is_never_pruned(place, tmp_path):
    file = place.back_up(tmp_path / "backups")
    shelf = Shelf(tmp_path / "backups")
    assert shelf.prune(shelf.all()[0].head, 0) == []
    assert file.exists()


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


def test_an_id_that_is_none_finds_nothing(tmp_path):
    (tmp_path / "x.ragbackup").write_bytes(b"")
    shelf = Shelf(tmp_path / "folder")
    for backup_id in ("../x", "x", "", "rag-wrapper-20261125T184500Z-3f2a9c1d"):
        assert shelf.find(backup_id) is None
