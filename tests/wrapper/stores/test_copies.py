"""Copies of a collection that changes while they are made."""

from __future__ import annotations

from types import SimpleNamespace

from schemas.storage.write_waits import COMMIT
from tests.wrapper.stores.reembedded import NEW
from wrapper.catalog.rows import find_collection
from wrapper.stores.copying import Copying
from wrapper.writing import WriteOptions, Writing


class ChangedMeanwhile:
    """A catalogue in which `change` happens after the first commit."""

    def __init__(self, catalog, change):
        self._catalog = catalog
        self._changes = [change]

    def __getattr__(self, name):
        return getattr(self._catalog, name)

    def commit(self, operation):
        outcome = self._catalog.commit(operation)
        while self._changes:
            self._changes.pop()()
        return outcome


def test_a_copy_names_the_model_of_its_vectors_when_its_original_gets_others_meanwhile(docs):
    docs.add(*"abc")
    docs.work.begin(docs.name, NEW)
    before = docs.collection()
    catalog = ChangedMeanwhile(docs.catalog, docs.finish)
    indexer = SimpleNamespace(notify=lambda: None)
    writing = Writing(
        catalog, indexer, free_disk_mb=lambda: 1e9, disk_floor_mb=0, write_wait_seconds=0.0, waiting_writers=1
    )
    Copying(catalog, writing).copy(docs.name, f"{docs.name}-copy", WriteOptions(wait=COMMIT))
    assert docs.collection().metadata == {"of": 1, **NEW}
    with docs.catalog.read() as transaction:
        copied = find_collection(transaction, f"{docs.name}-copy")
    assert (copied.metadata, copied.dimension, copied.count) == (before.metadata, before.dimension, 3)
