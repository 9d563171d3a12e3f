"""A backup has the vectors that stand beside a collection, and tells of the collections that people know."""

from __future__ import annotations

import numpy as np
import pytest

from tests.wrapper.stores.reembedded import NEW, embedded, reembeddings
from wrapper.backups.restoring import restore
from wrapper.catalog import snapshots

SHOWN = {"collections": 1, "documents": 3, "originals": 1}


@pytest.fixture
def reembedded(place):
    """The place, with two of three documents re-embedded."""
    with place.opened() as catalog:
        work = reembeddings(catalog)
        work.begin("library", NEW)
        [hidden] = work.under_way()
        part = work.next_part(hidden, 2)
        assert not work.store(part, np.stack([embedded(each.text) for each in part.documents]))
    return place


def restored(file, place):
    with file.open("rb") as opened:
        return restore(opened, place.settings, None, replace=False)


def test_what_nobody_sees_is_there_and_is_not_counted(reembedded, new_place, tmp_path):
    other = new_place("other")
    assert restored(reembedded.back_up(tmp_path / "backups"), other).head.counts == SHOWN
    assert other.rows() == reembedded.rows()
    with other.opened() as catalog:
        assert reembeddings(catalog).of("library").documents_done == 2


def test_a_backup_that_counts_it_is_restored_all_the_same(reembedded, new_place, tmp_path, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(snapshots, "HIDDEN", "SELECT key FROM collections WHERE 1 = 0")
        file = reembedded.back_up(tmp_path / "backups")
    other = new_place("other")
    assert restored(file, other).head.counts == SHOWN | {"collections": 2, "documents": 5}
    assert other.rows() == reembedded.rows()
