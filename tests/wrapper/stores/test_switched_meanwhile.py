"""Who holds on to the old vectors of a collection when it gets others: a copy under way, and codes in any process."""

from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

from schemas.errors import InvalidInputError
from schemas.storage.write_waits import COMMIT
from tests.support.live import eventually
from tests.wrapper.stores.reembedded import NEW, embedded
from wrapper.catalog.rows import find_collection
from wrapper.querying.code_files import CodeFiles
from wrapper.querying.costs import CostModel
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.planner import Planner
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


def test_codes_of_the_old_vectors_answer_nothing_after_a_switch(docs, tmp_path):
    """In any process: one that holds them, and one that opens their file."""
    clock = count(step=10)

    def process():
        held = HeldVectors(
            1_000_000, docs.catalog, CodeFiles(tmp_path / "codes", 1_000_000), lambda: float(next(clock))
        )
        return Planner(docs.catalog, None, CostModel(memory_base=0.0, exact_per_document=1.0), held)

    def nearest(planner, vector):
        """Return what is found once vectors are in memory; what was found before must be the same."""
        found = []

        def is_in_memory():
            answer = planner.query(docs.name, vector, top_k=2)
            found.append(tuple(match.document.text for match in answer.matches))
            return answer.plan == "memory"

        eventually(is_in_memory)
        [only] = set(found)
        return only

    docs.add("a", "bb", "ccc", "dddd")
    first = process()
    old = nearest(first, np.ones(2, "<f4"))
    assert list((tmp_path / "codes").glob("*.codes"))
    docs.switch()
    texts = [each.text for each in docs.documents()]
    expected = sorted(texts, key=lambda text: np.square(embedded(text) - embedded(texts[2])).sum())[:2]
    for planner in (process(), first):
        assert nearest(planner, embedded(texts[2])) == tuple(expected)
    docs.work.go_back(docs.name)
    for planner in (process(), first):
        with pytest.raises(InvalidInputError):
            planner.query(docs.name, embedded(texts[2]), top_k=1)
        assert nearest(planner, np.ones(2, "<f4")) == old
