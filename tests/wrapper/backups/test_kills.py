"""A backup or a restore that is killed at any moment leaves the live data as it was, or the restored data whole."""

import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.wrapper.backups.conftest import listing
from wrapper.backups.archive import ArchiveReader
from wrapper.backups.moves import complete_moves
from wrapper.backups.places import ASIDE, HELD, MOVES, SCRATCH, STAGED

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[3]
MANY = 400


@contextmanager
def dying(data_dir, place, what):
    """Give `die(n)`, which returns whether the process was killed at its n-th touch of files."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.wrapper.backups.dying_process", data_dir, place, what],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def die(number):
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        said = process.stdout.readline().strip()
        assert said in ("killed", "done 0"), said
        return said == "killed"

    with process:
        yield die
        process.stdin.close()


def files(folder):
    """Return the files of a data directory, but for what restores have moved aside."""
    return {name: content for name, content in listing(folder).items() if not name.startswith(ASIDE)}


def test_a_killed_backup_leaves_no_file_that_looks_like_one(place, tmp_path):
    folder = tmp_path / "backups"
    folder.mkdir()
    before = files(place.data_dir)
    with dying(place.data_dir, folder, "backup") as die:
        number = next(number for number in range(1, MANY, 3) if not _survives(die, number, place, folder, before))
    assert number > 30
    assert all(file.suffix == ".ragbackup" and not file.name.startswith(".") for file in folder.iterdir())
    assert not (place.data_dir / HELD).exists()
    assert not (place.data_dir / SCRATCH).exists()


def _survives(die, number, place, folder, before):
    """Kill a backup, and check what there is then; return whether it was killed."""
    killed = die(number)
    now = {name: content for name, content in files(place.data_dir).items() if not name.startswith((HELD, SCRATCH))}
    assert now == before, number
    assert all(file.name.endswith((".ragbackup", ".ragbackup.incomplete")) for file in folder.iterdir()), number
    for file in folder.glob("*.ragbackup"):
        if not file.name.startswith("."):
            with file.open("rb") as opened:
                assert [name for name, _ in ArchiveReader(opened, None).entries()]
    return killed


def test_a_killed_restore_leaves_the_old_data_or_the_new(place, new_place, tmp_path):
    file = place.back_up(tmp_path / "backups")
    restored_rows = place.rows()
    other = new_place("other")
    other.data_dir.mkdir()
    other.fill(["old"])
    other.write("originals/beef/old", b"an older original")
    old_rows, old_files = other.rows(), files(other.data_dir)
    shutil.copytree(other.data_dir, tmp_path / "kept")
    outcomes = []
    with dying(other.data_dir, file, "restore") as die:
        for number in range(1, MANY, 5):
            killed = die(number)
            under_way = (other.data_dir / MOVES).exists()
            complete_moves(other.settings)
            assert not (other.data_dir / STAGED).exists()
            now = files(other.data_dir)
            if now == old_files:
                outcomes.append("old")
                assert not under_way
                assert other.rows() == old_rows
            else:
                outcomes.append("new")
                assert other.rows() == restored_rows
                assert "originals/beef/old" not in now
                assert now["secret.key"] == (place.data_dir / "secret.key").read_bytes()
                (aside,) = other.data_dir.glob(f"{ASIDE}*")
                assert (aside / "originals" / "beef" / "old").read_bytes() == b"an older original"
            shutil.rmtree(other.data_dir)
            shutil.copytree(tmp_path / "kept", other.data_dir)
            if not killed:
                break
    assert outcomes == sorted(outcomes, reverse=True)  # all of the old before all of the new
    assert {"old", "new"} == set(outcomes)
    assert len(outcomes) > 10
