"""While the index lags behind, everything that was acknowledged is found, and there is an end to how far it may lag."""

import random

import numpy as np
import pytest

from tests.properties.stories import add
from tests.support.worlds import OPTIONS
from wrapper import writing
from wrapper.catalog.index_state import outbox
from wrapper.catalog.rows import find_collection
from wrapper.querying import waiting_writes
from wrapper.writing import BusyError, WriteOptions

COMMIT = WriteOptions(wait="commit")
STEPS = 120
NEAREST = 5


def _nearest(world, query):
    found = world.process.planner.query("docs", query, top_k=NEAREST)
    return [each.document.id for each in found.matches], found.plan


def _model_nearest(model, query):
    far = {each: 1 - vector @ query / np.linalg.norm(vector) / np.linalg.norm(query) for each, vector in model.items()}
    return sorted(far, key=far.__getitem__)[:NEAREST]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_index_lacks_queries_find_what_was_acknowledged(world, monkeypatch, seed):
    """As in a load that does not wait: the engine takes a part now and then, and otherwise lags behind."""
    monkeypatch.setattr(waiting_writes, "PENDING_ENTRIES", 8)
    monkeypatch.setattr(waiting_writes, "MAX_PENDING_IDS", 20)
    chance = random.Random(seed)
    world.fill(count=30)
    model = {f"d{number}": world.vector(number) for number in range(30)}
    stored, _ = world.store.documents("docs", list(model), with_embeddings=True)
    model = {each.id: each.embedding for each in stored}
    plans = set()
    for step in range(STEPS):
        kind = chance.random()
        if kind < 0.6:
            ids = [f"n{step}-{place}" for place in range(chance.randint(1, 4))] + chance.sample(sorted(model), 1)
            batch = world.batch(*ids)
            batch.embeddings[:] = [world.vector(1_000 * step + place) for place in range(len(ids))]
            assert not world.store.add_documents("docs", batch, COMMIT).indexed
            model |= dict(zip(ids, batch.embeddings, strict=True))
        elif kind < 0.8:
            gone = chance.sample(sorted(model), 2)
            assert world.store.delete_documents("docs", COMMIT, ids=gone).outcome.deleted == 2
            model = {each: vector for each, vector in model.items() if each not in gone}
        elif kind < 0.9:
            world.process._indexer._drain_some()
        query = world.vector(100_000 + step)
        found, plan = _nearest(world, query)
        assert found == _model_nearest(model, query)
        plans.add(plan)
    assert plans == {"index", "scan"}
    world.process.drain()
    world.check()
    assert set(world.records()) == set(model)


@pytest.mark.parametrize(("bound", "most"), [("MAX_LAG", 3), ("MAX_LAG_DOCUMENTS", 6)])
def test_the_lag_of_one_collection_refuses_no_write_to_another_and_no_delete(world, monkeypatch, bound, most):
    world.fill("slow")
    world.fill("quick")
    monkeypatch.setattr(writing, bound, most)
    world.process.engine_up = False
    for number in range(3):
        add("slow", (f"n{number}", {}, number), (f"m{number}", {}, number)).run(world.store)
    for refused in (OPTIONS, COMMIT):
        with pytest.raises(BusyError) as busy:
            world.store.add_documents("slow", world.batch("more"), refused)
        assert busy.value.details == {"collection": "slow", "index_lag": 3, "index_lag_documents": 6}
    assert world.store.collection("slow").count == 9
    add("quick", ("more", {}, 1)).run(world.store)
    assert world.store.delete_documents("slow", OPTIONS, ids=["n0"]).outcome.deleted == 1
    assert world.store.delete_documents("slow", OPTIONS, where=world.where({"old": True})).outcome.deleted == 3
    world.store.empty_collection("slow", OPTIONS)
    world.store.delete_collection("slow", OPTIONS)
    world.process.engine_up = True
    world.process.drain()
    world.check()


def test_an_entry_that_was_applied_no_longer_counts(world):
    world.fill()
    world.store.add_documents("docs", world.batch(*(f"n{number}" for number in range(700))), COMMIT)
    world.store.delete_documents("docs", COMMIT, ids=["d0", "d1"])

    def sizes():
        with world.process.catalog.read() as transaction:
            return outbox.sizes(transaction, find_collection(transaction, "docs").key)

    assert sizes() == (3, 702)
    assert world.process._indexer._drain_some()
    assert sizes() == (2, 202)
    world.process.drain()
    assert sizes() == (0, 0)
