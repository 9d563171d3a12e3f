"""An erasure and backups keep each other away, and an erasure tells of those that there are."""

import time
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from wrapper.backups.making import BackupUnderWayError, only_backup
from wrapper.backups.places import HELD, KEPT_FOLDER, SCRATCH
from wrapper.backups.service_backups import Backups
from wrapper.catalog_choice import catalog_access
from wrapper.erasing import kept_backups
from wrapper.erasing.kept_backups import KeptBackups


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
    with (
        only_backup(place.data_dir),
        pytest.raises(BackupUnderWayError, match="nothing was erased"),
        erasure.away(),
    ):
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
