"""The token by which a restore into a database is known to have happened."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from tests.support.live import PATIENCE_SECONDS, eventually
from tests.wrapper.backups.conftest import ORIGINAL, POSTGRESQL, Place
from wrapper.backups import restoring
from wrapper.backups.moves import complete_moves
from wrapper.backups.places import MOVES, STAGED
from wrapper.backups.sealing import DamagedArchiveError
from wrapper.catalog_choice import catalog_access

pytestmark = POSTGRESQL


def test_whether_a_restore_was_committed_is_not_told_before_that_is_decided(new_place):
    """The server goes on with the commit of a process that was killed meanwhile."""
    settings = new_place("data").settings
    access = catalog_access(settings, makes=False)

    def connect():
        connection = access.database.connect()
        connection.execute("SET lock_timeout = 50")
        return connection

    copies = type(access.database_copies)(connect)
    with copies.restoring(None, "mine"):
        with pytest.raises(copies.errors, match="lock timeout"):
            copies.was_restored("mine")
        assert not copies.was_restored("another")
    assert copies.was_restored("mine")


def test_a_commit_that_was_waited_for_is_seen_whatever_the_database_has_for_isolation(new_place):
    settings = new_place("data").settings
    stricter = f"{settings.catalog_url}%20-cdefault_transaction_isolation%3Drepeatable%5C%20read"
    access = catalog_access(replace(settings, catalog_url=stricter), makes=False)
    opened = []

    def connect():
        connection = access.database.connect()
        opened.append(connection.info.backend_pid)
        return connection

    copies = type(access.database_copies)(connect)
    waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND pid = %s"
    with ThreadPoolExecutor(1) as beside, closing(access.database.connect()) as looking:
        with copies.restoring(None, "mine"):
            told = beside.submit(copies.was_restored, "mine")
            eventually(lambda: looking.execute(waits, (opened[-1],)).fetchone() is not None)
        assert told.result(PATIENCE_SECONDS)


def test_a_killed_restore_is_given_up_for_one_that_happens_and_for_no_other(place, new_place, tmp_path, monkeypatch):
    file, killed = place.back_up(tmp_path / "backups"), new_place("killed")
    monkeypatch.setattr(restoring, "complete_in", lambda data_dir, _, **how: (data_dir / MOVES).exists() and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        killed.restore(file)
    monkeypatch.undo()
    damaged, content = tmp_path / "damaged.ragbackup", bytearray(file.read_bytes())
    content[-200] ^= 0xFF
    damaged.write_bytes(content)
    elsewhere = Place(replace(killed.settings, catalog_url=new_place("another").settings.catalog_url))
    with pytest.raises(DamagedArchiveError):
        elsewhere.restore(damaged, replace=True)
    own = f"originals/c0ffee/{ORIGINAL}"
    assert not (killed.data_dir / own).exists()
    complete_moves(killed.settings)
    assert killed.rows() == place.rows()
    assert (killed.data_dir / own).read_bytes() == (place.data_dir / own).read_bytes()
    assert not (killed.data_dir / STAGED).exists()
