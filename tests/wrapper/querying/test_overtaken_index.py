"""What is written while the index is asked is in the answer, whether the index has been told of it by then or not."""

import numpy as np
import pytest

from schemas.errors import DocumentNotFoundError
from tests.wrapper import documents
from wrapper.catalog import writes
from wrapper.catalog.index_state import outbox
from wrapper.querying.costs import CostModel
from wrapper.querying.planner import Planner

FAR = [f"far{number}" for number in range(50)]
LARGE = writes.INDEXED_AT_ONCE + 100
"""So many documents are told to the index in two parts."""
INDEX_IS_CHEAP = CostModel(exact_per_document=1e9)


@pytest.fixture
def catalog(empty_catalog):
    """`docs`: 50 documents on a line, nearest to 0 first; indexed."""
    documents.create(empty_catalog, "docs", metric="l2")
    add(empty_catalog, FAR, range(5, 55))
    empty_catalog.commit(lambda transaction: documents.settle(transaction, "docs"))
    return empty_catalog


def add(catalog, ids, places):
    documents.add(catalog, "docs", ids, vectors=[[place, 0.0] for place in places])


def add_many(catalog, nearest=100.0):
    add(catalog, ["nearest", *(f"w{number}" for number in range(1, LARGE))], [nearest] + [100.0] * (LARGE - 1))


def tell_the_index(catalog):
    """Let it have what waits longest."""
    catalog.commit(lambda transaction: outbox.remove(transaction, [outbox.oldest(transaction, limit=1)[0].id]))


class OvertakenIndex:
    """It proposes what it had before `meanwhile`, then what it was told."""

    def __init__(self, meanwhile, later):
        self._answers = [FAR, later]
        self._meanwhile = meanwhile
        self.asked = 0

    def is_ready(self):
        return True

    def nearest(self, engine_id, embedding, n_results):
        answer = self._answers[min(self.asked, 1)]
        self.asked += 1
        if self.asked == 1:
            self._meanwhile()
        return answer[:n_results]


def ask(catalog, index, **question):
    found = Planner(catalog, index, INDEX_IS_CHEAP).query("docs", **question)
    return found.plan, [match.document.id for match in found.matches]


def nearest_to_0(catalog, index):
    return ask(catalog, index, embedding=np.zeros(2, dtype="<f4"), top_k=2)


def test_a_large_write_of_which_the_index_has_a_part(catalog):
    def meanwhile():
        add_many(catalog, nearest=0.0)
        tell_the_index(catalog)

    index = OvertakenIndex(meanwhile, ["nearest", *FAR])
    assert nearest_to_0(catalog, index) == ("index", ["nearest", "far0"])
    assert index.asked == 2


def test_a_small_write_that_the_index_has_before_a_large_one_that_waits(catalog):
    def meanwhile():
        add(catalog, ["nearest"], [0.0])
        tell_the_index(catalog)
        add(catalog, [f"w{number}" for number in range(LARGE)], [100.0] * LARGE)

    index = OvertakenIndex(meanwhile, ["nearest", *FAR])
    assert nearest_to_0(catalog, index) == ("index", ["nearest", "far0"])
    assert index.asked == 2


def test_the_middle_of_documents_that_move_is_where_they_are_in_the_answer(catalog):
    index = OvertakenIndex(lambda: add(catalog, ["far0"], [54.0]), None)
    assert ask(catalog, index, near=["far0"], top_k=2) == ("exact", ["far49", "far48"])


def test_documents_that_are_gone_when_it_is_answered_are_near_nothing(catalog):
    def meanwhile():
        documents.delete(catalog, "docs", "far0")

    with pytest.raises(DocumentNotFoundError):
        ask(catalog, OvertakenIndex(meanwhile, None), near=["far0"], top_k=2)
