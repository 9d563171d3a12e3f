"""Codes of the old vectors answer nothing after a switch."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from schemas.errors import InvalidInputError
from tests.support.live import eventually
from tests.wrapper.stores.reembedded import NEW, embedded
from wrapper.querying.code_files import CodeFiles
from wrapper.querying.costs import CostModel
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.planner import Planner


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
    docs.work.begin(docs.name, NEW)
    docs.finish()
    texts = [each.text for each in docs.documents()]
    expected = sorted(texts, key=lambda text: np.square(embedded(text) - embedded(texts[2])).sum())[:2]
    for planner in (process(), first):
        assert nearest(planner, embedded(texts[2])) == tuple(expected)
    docs.work.go_back(docs.name)
    for planner in (process(), first):
        with pytest.raises(InvalidInputError):
            planner.query(docs.name, embedded(texts[2]), top_k=1)
        assert nearest(planner, np.ones(2, "<f4")) == old
